"""Glance's API, which brings its schema up to date before it uses it."""
import os

import cloud

os.environ['OS_GLANCE_CONFIG_DIR'] = cloud.ETC + '/glance'
cloud.log_with_threads()

from glance.common import wsgi_app  # noqa: E402

cloud.keep_logins()
clean_staging = wsgi_app.run_staging_cleanup


def migrate_then_clean():
    """In the place of the first thing that init_app does with the database."""
    from alembic import command
    from glance.db.sqlalchemy import alembic_migrations
    cloud.wait_for('databases')
    command.upgrade(alembic_migrations.get_alembic_config(), 'heads')
    clean_staging()


wsgi_app.run_staging_cleanup = migrate_then_clean
application = wsgi_app.init_app()
