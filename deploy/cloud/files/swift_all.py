"""Swift's four servers in one process. Each keeps a port of its own, and what they
say to each other goes over these."""
import os
import sys

sys.path.insert(0, os.environ['STRONGROOM_CLOUD'] + '/etc')
import cloud  # noqa: E402

SWIFT = cloud.ETC + '/swift'
os.environ['TZ'] = 'UTC+0'

from swift.common import utils, wsgi  # noqa: E402

utils.eventlet_monkey_patch()
utils.set_swift_dir(SWIFT)

import eventlet  # noqa: E402
from eventlet import wsgi as server  # noqa: E402
from swift.common.http_protocol import SwiftHttpProtocol  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402

STORAGE = ('object', 'container', 'account')
ports = {name: int(utils.readconf(f'{SWIFT}/{name}-server.conf', f'app:{name}-server')['bind_port'])
         for name in (*STORAGE, 'proxy')}
for name in STORAGE:
    ring = f'{SWIFT}/{name}.ring.gz'
    if not os.path.exists(ring):
        builder = RingBuilder(part_power=4, replicas=1, min_part_hours=0)
        builder.add_dev({
            'id': 0, 'region': 1, 'zone': 1, 'weight': 1.0, 'device': 'd1', 'meta': '',
            'ip': '127.0.0.1', 'port': ports[name], 'replication_ip': '127.0.0.1', 'replication_port': ports[name]})
        builder.rebalance()
        builder.get_ring().save(ring)
utils.validate_configuration()
utils.FALLOCATE_RESERVE, utils.FALLOCATE_IS_PERCENT = 0, False

threads = []
for name, port in ports.items():
    listener = eventlet.listen(('127.0.0.1', port), backlog=512)
    app = wsgi.loadapp(f'{SWIFT}/{name}-server.conf', global_conf={'log_name': name + '-server'})
    threads.append(eventlet.spawn(
        server.server, listener, app, utils.NullLogger(), protocol=SwiftHttpProtocol, socket_timeout=60,
        custom_pool=eventlet.GreenPool(512), capitalize_response_headers=False))
for thread in threads:
    thread.wait()
