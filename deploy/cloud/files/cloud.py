"""What the start-up of every service needs to know of its cloud."""
import os
import time

DIR = os.environ['STRONGROOM_CLOUD']
ETC = DIR + '/etc'


def wait_for(what):
    """Returns once the databases, or ceph, are there; importing code goes on meanwhile."""
    for _ in range(1200):
        if os.path.exists(DIR + '/run/' + what):
            return
        time.sleep(0.05)
    raise SystemExit(what + ' did not come up within a minute')


def log_with_threads():
    """Where eventlet is loaded, oslo.log gives logging its locks. In a server of threads
    one that waits for such a lock may wait for ever (greenlet.error: cannot switch to a
    different thread), and all others behind it."""
    from oslo_log import log
    log._fix_eventlet_logging = lambda: None


def keep_logins():
    """A service logs in anew when its token has two minutes left. Where tokens live
    less than that, for tests, it would do so for every request."""
    from keystoneauth1.identity.base import BaseIdentityPlugin as plugin
    life = int(os.environ['STRONGROOM_TOKEN_LIFE'])
    plugin.MIN_TOKEN_LIFE_SECONDS = min(plugin.MIN_TOKEN_LIFE_SECONDS, life // 4)
