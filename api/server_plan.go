package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/compute"
	"strongroom/schema"
)

// serverPlan is a create that every rule has let pass: nothing can refuse it
// any more but the lack of a host.
type serverPlan struct {
	createRequest
	least      int // how many servers there must be room for
	count      int // how many are made
	quota      compute.Quota
	flavor     compute.Flavor
	image      compute.Image
	keyData    *string
	attach     []requestedNetwork // to networks of hosts
	ports      []compute.Network  // of the network service; nil: there is none
	placement  placement
	devices    localDevices
	encryption compute.Encryption
	tpm        *compute.TPM
	traits     compute.Traits

	diskSecurity compute.SecretSecurity
	delegated    bool // its owner gave a trust already
	configDrive  bool
}

// planServer checks a create against all that can be known before a host is
// chosen. Nothing is written: a request that is refused leaves nothing.
func (a *API) planServer(r *Request) (*serverPlan, error) {
	in, err := readCreate(r)
	if err != nil {
		return nil, err
	}
	p := &serverPlan{createRequest: in}
	if p.least, p.count, err = in.counts(); err != nil {
		return nil, err
	}
	if p.flavor, err = a.flavorOf(r, string(in.FlavorRef)); err != nil {
		return nil, err
	}
	if p.devices, err = readDevices(in, p.flavor); err != nil {
		return nil, err
	}
	if p.image, err = a.imageOf(r, in.ImageRef); err != nil {
		return nil, err
	}
	if err = in.checkBuses(p.image); err != nil {
		return nil, err
	}
	if p.keyData, err = a.keyOf(r, in.KeyName); err != nil {
		return nil, err
	}
	if p.placement, err = a.planPlacement(r, &p.createRequest); err != nil {
		return nil, err
	}
	if err = a.checkZone(r, p.AvailabilityZone); err != nil {
		return nil, err
	}
	if err = a.planNetworks(r, p); err != nil {
		return nil, err
	}
	if len(p.attach)+len(p.ports) > 0 {
		if err := r.Enforce(ruleAttachNetwork); err != nil {
			return nil, err
		}
	}
	quota, err := a.quotaOf(r.Context(), r.ProjectID())
	if err != nil {
		return nil, err
	}
	if err := quota.written.checkMetadata(len(p.Metadata)); err != nil {
		return nil, err
	}
	p.quota = quota.Quota
	p.configDrive = compute.ConfigDriveOf(bool(p.ConfigDrive) || a.config.ForceConfigDrive, p.image)
	return p, a.decide(p)
}

// decide asks the rules, and how large a disk may be that takes its image's size (H3).
func (a *API) decide(p *serverPlan) error {
	if err := compute.CheckImageSize(p.flavor, p.image, a.config.MaxImageDiskGB); err != nil {
		return err
	}
	return p.decide()
}

// decide asks the rules of flavor and image (EE-01 … EE-06, EE-13, EE-14, TPM-03 … TPM-07).
func (p *serverPlan) decide() (err error) {
	if err = compute.CheckImage(p.image); err != nil {
		return err
	}
	if err = compute.CheckImageFits(p.flavor, p.image); err != nil {
		return err
	}
	if err = compute.CheckFirmware(p.flavor, p.image); err != nil {
		return err
	}
	if err = compute.CheckHardware(p.flavor, p.image); err != nil {
		return err
	}
	if p.encryption, err = compute.EncryptionOf(p.flavor, p.image); err != nil {
		return err
	}
	if _, err = p.image.BackingFormat(); err != nil {
		return err
	}
	if p.tpm, err = compute.TPMOf(p.flavor, p.image); err != nil {
		return err
	}
	if p.diskSecurity, err = compute.DiskSecurity(p.flavor); err != nil {
		return err
	}
	if p.configDrive {
		if _, err = compute.CDROMBus(p.image); err != nil {
			return err
		}
	}
	p.traits, err = compute.TraitsOf(p.flavor, p.image, p.encryption, p.tpm)
	return err
}

// flavorOf finds a flavor by the reference of a request: an id, or a URL that
// ends with one.
func (a *API) flavorOf(r *Request, ref string) (compute.Flavor, error) {
	flavor, err := a.computeFlavor(r, ref[strings.LastIndex(ref, "/")+1:])
	var refused *fault.Fault
	if errors.As(err, &refused) && refused.Code == http.StatusNotFound {
		return flavor, fault.BadRequest("%s", refused.Message)
	}
	return flavor, err
}

// imageOf finds an image that a server can boot from.
func (a *API) imageOf(r *Request, ref string) (compute.Image, error) {
	if ref == "" {
		return compute.Image{}, fault.BadRequest("Missing imageRef attribute")
	}
	id, err := uuid.Parse(ref)
	if err != nil {
		return compute.Image{}, fault.BadRequest("Invalid imageRef provided.")
	}
	image, err := a.config.Images.Image(r.Context(), r.Credential(), compute.ImageID{UUID: id})
	switch {
	case compute.Is(err, compute.NotFound), compute.Is(err, compute.Forbidden):
		return image, fault.BadRequest("Can not find requested image")
	case err != nil:
		return image, err
	case image.Status != "active":
		return image, fault.BadRequest("Image %s is not active.", image.ID)
	case !slices.Contains(bootable, image.DiskFormat):
		return image, fault.BadRequest("Image %s is unacceptable: disk format '%s' cannot be booted. Allowed: %s.",
			image.ID, image.DiskFormat, strings.Join(bootable, ", "))
	}
	image.Devices, image.Pages = true, true
	return image, nil
}

// bootable are the disk formats that hosts make root disks of.
var bootable = []string{compute.ImageQcow2, compute.ImageRaw, compute.ImageLUKS}

// keyOf finds the caller's keypair.
func (a *API) keyOf(r *Request, name *string) (*string, error) {
	if name == nil {
		return nil, nil
	}
	key, err := a.db.GetKeypair(r.Context(), schema.GetKeypairParams{UserID: r.UserID(), Name: *name})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.BadRequest("Invalid key_name provided.")
	}
	return &key.PublicKey, err
}

// defaultZone is the zone of a cloud that has no host yet.
const defaultZone = "nova"

func (a *API) checkZone(r *Request, zone string) error {
	if zone == "" {
		return nil
	}
	zones, err := a.db.ZoneNames(r.Context())
	if err != nil {
		return err
	}
	if len(zones) == 0 {
		zones = []string{defaultZone}
	}
	if !slices.Contains(zones, zone) {
		return fault.BadRequest("The requested availability zone is not available")
	}
	return nil
}
