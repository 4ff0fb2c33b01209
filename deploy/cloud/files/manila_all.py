"""Manila's API, scheduler and share manager in one process, so that the in-memory
transport reaches all of them and no message broker is needed."""
import eventlet

eventlet.monkey_patch()
import __original_module_threading as original_threading  # noqa: E402
import threading  # noqa: E402

original_threading.current_thread.__globals__['_active'] = threading._active

import os  # noqa: E402
import sys  # noqa: E402

sys.path.insert(0, os.environ['STRONGROOM_CLOUD'] + '/etc')
import cloud  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_log import log  # noqa: E402
from oslo_messaging._drivers import impl_fake  # noqa: E402
from oslo_service import service as oslo_service  # noqa: E402


class Quick:
    """The in-memory transport looks for messages every 50 ms; 5 ms will do."""
    time = staticmethod(impl_fake.time.time)
    sleep = staticmethod(lambda seconds: eventlet.sleep(min(seconds, 0.005)))


impl_fake.time = Quick

from manila import context, db, exception, service, utils, version  # noqa: E402
from manila.common import config  # noqa: E402
from manila.db import migration  # noqa: E402

CONF = cfg.CONF
log.register_options(CONF)
CONF(['--config-file', cloud.ETC + '/manila.conf'], project='manila', version=version.version_string())
config.verify_share_protocols()
log.setup(CONF, 'manila')
utils.monkey_patch()

cloud.wait_for('databases')
migration.upgrade('head')
backends = CONF.enabled_share_backends
for name, backend in {'default': 'dummy', 'cephfs': 'cephfs', 'nfs': 'nfs'}.items():
    if backend not in backends:
        continue
    try:
        db.share_type_create(context.get_admin_context(), {'name': name, 'is_public': True, 'extra_specs': {
            'share_backend_name': backend, 'driver_handles_share_servers': 'False',
            'snapshot_support': str(backend != 'nfs'), 'create_share_from_snapshot_support': str(backend != 'nfs')}})
    except exception.ShareTypeExists:
        pass
if 'cephfs' in backends:
    cloud.wait_for('ceph')

launcher = oslo_service.ServiceLauncher(CONF, restart_method='mutate')


def launch(**kwargs):
    started = service.Service.create(coordination=True, **kwargs)
    launcher.launch_service(started)
    while started.rpcserver is None:
        eventlet.sleep(0.01)
    return started


# A back end tells the schedulers of its pools when it starts and then once a
# minute: each is up before the next, and the API comes last.
scheduler = launch(binary='manila-scheduler')
hosts = {f'{CONF.host}@{backend}' for backend in backends}
for host in hosts:
    launch(host=host, service_name=host.partition('@')[2], binary='manila-share')
for _ in range(3000):
    if hosts <= set(scheduler.manager.driver.host_manager.service_states):
        break
    eventlet.sleep(0.01)
launcher.launch_service(service.WSGIService('osapi_share'))
launcher.wait()
