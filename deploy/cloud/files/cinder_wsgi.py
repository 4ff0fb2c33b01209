"""Cinder's API, which brings its schema up to date before it uses it. No volume service runs
behind it: it is here for its volume types."""
import sys

import cloud

cloud.log_with_threads()
sys.argv = ['cinder-api', '--config-file', cloud.ETC + '/cinder.conf']

from cinder.wsgi import wsgi  # noqa: E402
from cinder.db import migration  # noqa: E402

cloud.keep_logins()
cloud.wait_for('databases')
begin = wsgi.coordination.COORDINATOR.start


def migrate_then_start():
    """In the place of the first thing that needs the settings and is done before the API is."""
    migration.db_sync()
    begin()


wsgi.coordination.COORDINATOR.start = migrate_then_start
application = wsgi.initialize_application()
