# Reads a metadata service as cloud-init's data sources of OpenStack and of EC2 do,
# and prints what they find.
import json
import sys

from cloudinit.sources.helpers import ec2, openstack

base = sys.argv[1]
openstack.MetadataReader._read_ec2_metadata = lambda _: {}  # asks 169.254.169.254, whatever its base is
found = openstack.MetadataReader(base, timeout=5, retries=0).read_v2()
meta = found["metadata"]
amazon = ec2.get_instance_metadata("latest", base, timeout=5, retries=0)
json.dump({
    "openstack": {
        "instance_id": meta["instance-id"],
        "hostname": meta["local-hostname"],
        "keys": meta["public_keys"],
        "seed": len(meta["random_seed"]),
        "devices": meta["devices"],
        "user_data": found["userdata"].decode(),
        "vendor_data": found["vendordata"],
        "vendor_data2": found["vendordata2"],
        "links": [link["ethernet_mac_address"] for link in found["networkdata"]["links"]],
    },
    "ec2": {
        "instance_id": amazon["instance-id"],
        "hostname": amazon["local-hostname"],
        "keys": amazon["public-keys"],
        "zone": amazon["placement"]["availability-zone"],
        "type": amazon["instance-type"],
        "block_devices": amazon["block-device-mapping"],
        "user_data": ec2.get_instance_userdata("latest", base, timeout=5, retries=0).decode(),
    },
}, sys.stdout)
