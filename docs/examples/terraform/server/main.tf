# A server on the project's network, in a group whose servers are on different hosts where there are several:
#
#   OS_CLOUD=strongroom-demo terraform apply -var name=web -var flavor=safe -var image=debian

terraform {
  required_providers {
    openstack = {
      source = "terraform-provider-openstack/openstack"
    }
  }
}

variable "name" {
  type = string
}

variable "flavor" {
  type        = string
  description = "one with hw:tpm_version and hw:ephemeral_encryption makes a sealed server"
}

variable "image" {
  type = string
}

variable "key_pair" {
  type        = string
  default     = "terraform"
  description = "the name of a key pair, which is made"
}

variable "power" {
  type        = string
  default     = "active"
  description = "active or shutoff"
}

provider "openstack" {}

data "openstack_compute_flavor_v2" "chosen" {
  name = var.flavor
}

data "openstack_images_image_v2" "chosen" {
  name        = var.image
  most_recent = true
}

data "openstack_networking_secgroup_v2" "default" {
  name = "default"
}

data "openstack_networking_network_v2" "lan" {
  tenant_id = data.openstack_networking_secgroup_v2.default.tenant_id
}

data "openstack_networking_subnet_v2" "lan" {
  network_id = data.openstack_networking_network_v2.lan.id
}

resource "openstack_compute_servergroup_v2" "apart" {
  name     = "apart"
  policies = ["soft-anti-affinity"]
}

resource "openstack_compute_keypair_v2" "admin" {
  name = var.key_pair
}

resource "openstack_compute_instance_v2" "server" {
  name            = var.name
  flavor_id       = data.openstack_compute_flavor_v2.chosen.id
  image_id        = data.openstack_images_image_v2.chosen.id
  key_pair        = openstack_compute_keypair_v2.admin.name
  security_groups = [data.openstack_networking_secgroup_v2.default.name]
  metadata        = { called = var.name }
  tags            = ["terraform"]
  power_state     = var.power

  network {
    uuid = data.openstack_networking_network_v2.lan.id
  }

  scheduler_hints {
    group = openstack_compute_servergroup_v2.apart.id
  }
}

data "openstack_networking_port_v2" "server" {
  device_id = openstack_compute_instance_v2.server.id
}

output "id" {
  value = openstack_compute_instance_v2.server.id
}

output "address" {
  value = openstack_compute_instance_v2.server.access_ip_v4
}

output "port" {
  value = data.openstack_networking_port_v2.server.all_fixed_ips[0]
}

output "cidr" {
  value = data.openstack_networking_subnet_v2.lan.cidr
}

# ssh -i KEY: terraform output -raw private_key >KEY; chmod 600 KEY
output "private_key" {
  value     = openstack_compute_keypair_v2.admin.private_key
  sensitive = true
}
