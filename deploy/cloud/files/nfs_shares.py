"""A back end of Manila's whose shares are folders that nfs-ganesha exports, to those whom the shares' rules let in."""
import os
import shutil
import signal
import zlib

import cloud
from manila.share import driver

ROOT = cloud.DIR + '/nfs'


def write(name, text):
    with open(ROOT + '/exports/' + name + '.new', 'w') as f:
        f.write(text)
    os.rename(ROOT + '/exports/' + name + '.new', ROOT + '/exports/' + name)


def export(share, rules):
    clients = ''.join(' CLIENT { Clients = %s; Access_Type = %s; }\n' % (r['access_to'], r['access_level'].upper()) for r in rules)
    write(share['id'], 'EXPORT { Export_Id = %d; Path = %s; Pseudo = /%s; Access_Type = None; FSAL { Name = VFS; }\n%s}\n' % (
        zlib.crc32(share['id'].encode()) % 65000 + 100, folder(share), share['id'], clients))
    apply()


def apply():
    write('all.conf', ''.join('%%include %s/exports/%s\n' % (ROOT, name) for name in sorted(os.listdir(ROOT + '/exports')) if '.' not in name))
    with open(cloud.DIR + '/run/ganesha.pid') as f:
        os.kill(int(f.read()), signal.SIGHUP)


def folder(share):
    return ROOT + '/shares/' + share['id']


def locations(share):
    return [{'path': '127.0.0.1:/' + share['id'], 'is_admin_only': False, 'metadata': {'preferred': True}}]


class FolderDriver(driver.ShareDriver):
    def __init__(self, *args, **kwargs):
        super().__init__(False, *args, **kwargs)

    def check_for_setup_error(self):
        pass

    def create_share(self, context, share, share_server=None):
        os.makedirs(folder(share))
        export(share, [])
        return locations(share)

    def ensure_share(self, context, share, share_server=None):
        return locations(share)

    def delete_share(self, context, share, share_server=None):
        try:
            os.unlink(ROOT + '/exports/' + share['id'])
            apply()
        except FileNotFoundError:
            pass
        shutil.rmtree(folder(share), ignore_errors=True)

    def update_access(self, context, share, access_rules, add_rules, delete_rules, *args, **kwargs):
        export(share, [r for r in access_rules if r['access_type'] == 'ip'])
        return {r['access_id']: {'state': 'error'} for r in access_rules if r['access_type'] != 'ip'}

    def get_configured_ip_versions(self):
        return [4]

    def _update_share_stats(self, data=None):
        super()._update_share_stats({'share_backend_name': 'nfs', 'storage_protocol': 'NFS', 'pools': [{
            'pool_name': 'folders', 'total_capacity_gb': 1000, 'free_capacity_gb': 1000, 'reserved_percentage': 0,
            'reserved_snapshot_percentage': 0, 'reserved_share_extend_percentage': 0,
            'qos': False, 'dedupe': [False], 'compression': [False], 'thin_provisioning': [False]}]})
