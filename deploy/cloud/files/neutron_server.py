"""Neutron's server, which makes its schema before it uses it."""
import os
import sys

import cloud

CONF = cloud.ETC + '/neutron.conf'
sys.argv = ['neutron-server', '--config-file', CONF]


def make_schema():
    """Makes the tables from the models, to which all migrations lead and which takes a
    tenth of their time."""
    import sqlalchemy
    from neutron.db.migration import cli
    cli.CONF(['--config-file', CONF, 'current'], project='neutron')
    engine = sqlalchemy.create_engine(cli.CONF.database.connection)
    with engine.begin() as connection:
        # Neutron compares booleans with integers: subnets.enable_dhcp IN (1).
        connection.execute(sqlalchemy.text(
            "UPDATE pg_cast SET castcontext = 'i' WHERE castsource = 'int4'::regtype AND casttarget = 'bool'::regtype"))
    from neutron.db.migration.models import head
    head.get_metadata().create_all(engine)
    for config in cli.get_alembic_configs():
        cli.do_alembic_command(config, 'stamp', revision='heads')
    engine.dispose()


cloud.wait_for('databases')
# In a process of its own: oslo.config and eventlet are set up only once in each.
child = os.fork()
if child == 0:
    make_schema()
    os._exit(0)
if os.waitpid(child, 0)[1]:
    raise SystemExit('the schema could not be made')
cloud.keep_logins()
cloud.wait_for('networks')

from neutron.cmd.eventlet.server import main  # noqa: E402

main()
