"""Barbican's API. It reads barbican.conf of its home folder as it is imported."""
import configparser

from paste import deploy

import cloud

cloud.log_with_threads()

import barbican.api.app  # noqa: E402, F401
from barbican.model.migration import commands  # noqa: E402

cloud.keep_logins()
settings = configparser.RawConfigParser()
settings.read(cloud.ETC + '/barbican.conf')
cloud.wait_for('databases')
commands.upgrade(to_version='head', sql_url=settings['database']['connection'])
application = deploy.loadapp('config:' + cloud.ETC + '/barbican-paste.ini')
