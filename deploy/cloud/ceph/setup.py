"""setup.py CONF new OSD_UUID  gives the cluster its disk and file system
setup.py CONF again         forgets the daemons of the run before
setup.py CONF pool NAME USER KEYRING  makes a pool for RBD, and a user who may use that one
setup.py CONF wait          returns once the file system serves clients"""
import json
import os
import sys
import time

import rados


def command(prefix, **arguments):
    status, answer, error = cluster.mon_command(json.dumps(dict(arguments, prefix=prefix, format='json')), b'')
    if status:
        sys.exit(f'{prefix}: {error}')
    return json.loads(answer) if answer.strip() else None


cluster = rados.Rados(conffile=sys.argv[1], name='client.admin')
cluster.connect(timeout=30)
if sys.argv[2] == 'new':
    command('osd new', uuid=sys.argv[3], id=0)
    for pool in ('metadata', 'data'):
        command('osd pool create', pool='cephfs.' + pool, pg_num=4, pgp_num=4, pool_type='replicated')
    command('fs new', fs_name='cephfs', metadata='cephfs.metadata', data='cephfs.data')
elif sys.argv[2] == 'again':
    command('mds fail', role_or_gid='0')
    command('mgr fail')
elif sys.argv[2] == 'pool':
    pool, user, keyring = sys.argv[3:]
    command('osd pool create', pool=pool, pg_num=4, pgp_num=4, pool_type='replicated')
    command('osd pool application enable', pool=pool, app='rbd')
    mine = f'profile rbd pool={pool}'
    made = command('auth get-or-create', entity='client.' + user, caps=['mon', 'profile rbd', 'osd', mine, 'mgr', mine])
    with open(os.open(keyring, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as file:
        file.write(f'[client.{user}]\n\tkey = {made[0]["key"]}\n')
    while pool not in [p['name'] for p in command('df')['pools']]:  # until its room is known
        time.sleep(0.05)
else:
    while True:
        status = command('status')
        ranks = status['fsmap']['by_rank']
        if ranks and ranks[0]['status'] == 'up:active' and status['mgrmap']['available']:
            break
        time.sleep(0.05)
