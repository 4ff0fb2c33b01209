"""The plugin of the openstack client for what strongroom adds to the compute API."""

from keystoneauth1 import adapter

DEFAULT_API_VERSION = "1"
API_VERSION_OPTION = "os_strongroom_api_version"
API_NAME = "strongroom"
API_VERSIONS = {"1": "strongroom_osc.plugin.make_client"}

# What requests ask for, see docs/compute-api.md.
VERSION = "compute 2.97, strongroom 1.1"


def make_client(instance):
    """A client of the compute service that speaks strongroom 1.1."""
    return adapter.Adapter(
        session=instance.session,
        service_type="compute",
        interface=instance.interface,
        region_name=instance._region_name,
        additional_headers={"OpenStack-API-Version": VERSION},
    )


def build_option_parser(parser):
    """There are no options for all commands."""
    return parser
