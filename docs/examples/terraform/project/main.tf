# A project with its quota, a flavor with an encrypted disk and a vTPM that only it sees, and a user. Run it as an administrator:
#
#   OS_CLOUD=strongroom TF_VAR_password=... terraform apply -var name=team -var user=ann

terraform {
  required_providers {
    openstack = {
      source = "terraform-provider-openstack/openstack"
    }
  }
}

variable "name" {
  type        = string
  description = "the project's name"
}

variable "user" {
  type        = string
  description = "the name of a user, who becomes a member of the project"
}

variable "password" {
  type        = string
  sensitive   = true
  description = "the user's password; Terraform keeps it in its state file"
}

variable "servers" {
  type        = number
  default     = 5
  description = "how many servers the project may have"
}

provider "openstack" {}

resource "openstack_identity_project_v3" "team" {
  name        = var.name
  description = "made by Terraform"
}

resource "openstack_compute_quotaset_v2" "team" {
  project_id = openstack_identity_project_v3.team.id
  instances  = var.servers
  cores      = 2 * var.servers
}

resource "openstack_compute_flavor_v2" "sealed" {
  name      = "${var.name}-sealed"
  ram       = 128
  vcpus     = 1
  disk      = 1
  is_public = false
  extra_specs = {
    "hw:ephemeral_encryption"        = "true"
    "hw:ephemeral_encryption_format" = "luks"
    "hw:tpm_version"                 = "2.0"
    "hw:tpm_model"                   = "tpm-crb"
  }
}

resource "openstack_compute_flavor_access_v2" "sealed" {
  flavor_id = openstack_compute_flavor_v2.sealed.id
  tenant_id = openstack_identity_project_v3.team.id
}

resource "openstack_identity_user_v3" "member" {
  name               = var.user
  password           = var.password
  default_project_id = openstack_identity_project_v3.team.id
}

# A member makes servers, and a creator makes the keys of their disks.
data "openstack_identity_role_v3" "has" {
  for_each = toset(["member", "creator"])
  name     = each.key
}

resource "openstack_identity_role_assignment_v3" "member" {
  for_each   = data.openstack_identity_role_v3.has
  user_id    = openstack_identity_user_v3.member.id
  project_id = openstack_identity_project_v3.team.id
  role_id    = each.value.id
}

output "project" {
  value = openstack_identity_project_v3.team.id
}

output "flavor" {
  value = openstack_compute_flavor_v2.sealed.name
}

output "flavor_id" {
  value = openstack_compute_flavor_v2.sealed.id
}
