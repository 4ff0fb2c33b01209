"""Keystone's API. The same process first makes its keys and schema and fills the
cloud through Keystone's own managers, so that the imports are paid for once."""
import base64
import json
import os
import uuid

import cloud

os.environ['OS_KEYSTONE_CONFIG_FILES'] = cloud.ETC + '/keystone.conf'
cloud.log_with_threads()
with open(cloud.ETC + '/seed.json') as file:
    SEED = json.load(file)

for repository in ('fernet', 'credential'):
    for number in '01':
        path = f'{cloud.DIR}/keystone/{repository}/{number}'
        if not os.path.exists(path):
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), 'wb') as file:
                file.write(base64.urlsafe_b64encode(os.urandom(32)))

import keystone.server  # noqa: E402
from keystone.common import provider_api  # noqa: E402
from keystone.common.sql import upgrades  # noqa: E402
from keystone.server.wsgi import initialize_public_application  # noqa: E402

configure = keystone.server.configure


def configure_and_migrate(*args, **kwargs):
    configure(*args, **kwargs)
    cloud.wait_for('databases')
    upgrades.offline_sync_database_to_version()


keystone.server.configure = configure_and_migrate
application = initialize_public_application()
api = provider_api.ProviderAPIs


def bootstrap():
    """What `keystone-manage bootstrap` does, in this process; gives the Bootstrapper."""
    from unittest import mock

    from keystone.cmd.bootstrap import Bootstrapper
    from keystone.server import backends
    with mock.patch.object(backends, 'load_backends'):  # they are loaded already
        b = Bootstrapper()
    b.admin_username, b.admin_password = 'admin', SEED['passwords']['admin']
    b.project_name, b.admin_role_name = 'admin', 'admin'
    b.service_name, b.region_id, b.immutable_roles = 'keystone', SEED['region'], True
    b.public_url = b.internal_url = b.admin_url = SEED['identity']
    b.bootstrap()
    return b


def make_roles():
    have = {role['name']: role['id'] for role in api.role_api.list_roles()}
    for name in SEED['roles']:
        if name not in have:  # later releases bootstrap "service" themselves
            have[name] = uuid.uuid4().hex
            api.role_api.create_role(have[name], {'id': have[name], 'name': name, 'options': {}})
    return have


def make_projects(admin):
    have = {'admin': admin}
    for name in SEED['projects']:
        if name not in have:
            have[name] = uuid.uuid4().hex
            api.resource_api.create_project(have[name], {
                'id': have[name], 'name': name, 'domain_id': 'default', 'parent_id': 'default',
                'enabled': True, 'is_domain': False, 'description': '', 'options': {}, 'tags': []})
    return have


def make_users(roles, projects, admin):
    for user in SEED['users']:
        if user['name'] == 'admin':
            user_id = admin
        else:
            user_id = api.identity_api.create_user({
                'name': user['name'], 'password': SEED['passwords'][user['name']],
                'domain_id': 'default', 'enabled': True, 'options': {}})['id']
        if user['name'] in SEED['system_readers']:
            api.assignment_api.create_system_grant_for_user(user_id, roles['reader'])
        for grant in user['grants']:
            if (user['name'], grant['project']) == ('admin', 'admin'):
                continue  # bootstrap's
            for role in grant['roles']:
                api.assignment_api.add_role_to_user_and_project(user_id, projects[grant['project']], roles[role])


def make_catalog():
    for entry in SEED['catalog']:
        service = uuid.uuid4().hex
        api.catalog_api.create_service(service, {
            'id': service, 'name': entry['name'], 'type': entry['type'], 'enabled': True})
        for interface in ('public', 'internal', 'admin'):
            endpoint = uuid.uuid4().hex
            api.catalog_api.create_endpoint(endpoint, {
                'id': endpoint, 'service_id': service, 'interface': interface, 'url': entry['url'],
                'region_id': SEED['region'], 'enabled': True})


if not api.role_api.list_roles():
    admin = bootstrap()
    make_users(make_roles(), make_projects(admin.project_id), admin.admin_user_id)
    make_catalog()
