package volume

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/validation"
	"strongroom/schema"
)

// encryption says how the volumes of a type are encrypted. A type has one
// encryption or none: the id in the path is not looked at.
func (a *API) encryption() []route {
	const path = "/types/:id/encryption"
	return []route{
		{method: http.MethodGet, path: path, rule: ruleShowCrypt, handle: a.showEncryption},
		{method: http.MethodPost, path: path, rule: ruleCreateCrypt, body: encryptionBody("provider", "control_location"), handle: a.createEncryption},
		{method: http.MethodGet, path: path + "/:key", rule: ruleShowCrypt, handle: a.showEncryptionKey},
		{method: http.MethodPut, path: path + "/:key", rule: ruleUpdateCrypt, body: encryptionBody(), handle: a.updateEncryption},
		{method: http.MethodDelete, path: path + "/:key", rule: ruleDeleteCrypt, status: http.StatusAccepted, handle: a.deleteEncryption},
	}
}

func encryptionBody(required ...string) validation.Versions {
	return always(validation.Object([]string{"encryption"}, validation.Properties{
		"encryption": validation.Object(required, validation.Properties{
			"provider":         {"type": "string", "maxLength": 255},
			"control_location": validation.Enum("front-end", "back-end"),
			"cipher":           {"type": []string{"string", "null"}, "maxLength": 255},
			"key_size": {
				"type": []string{"integer", "string", "null"}, "pattern": "^[0-9]+$", "minimum": 0, "maximum": validation.MaxInt,
			},
		}),
	}))
}

// encryption is an encryption type, as bodies and the record of changes show it.
type encryption struct {
	VolumeTypeID    uuid.UUID `json:"volume_type_id"`
	ID              uuid.UUID `json:"encryption_id"`
	Provider        string    `json:"provider"`
	ControlLocation string    `json:"control_location"`
	Cipher          *string   `json:"cipher"`
	KeySize         *int32    `json:"key_size"`
}

func encryptionOf(row schema.VolumeTypeEncryption) encryption {
	return encryption{row.VolumeTypeID, row.ID, row.Provider, row.ControlLocation, row.Cipher, row.KeySize}
}

// encryptionChange is what a body asks for.
type encryptionChange struct {
	Encryption struct {
		Provider        *string             `json:"provider"`
		ControlLocation *string             `json:"control_location"`
		Cipher          *string             `json:"cipher"`
		KeySize         *validation.Integer `json:"key_size"`
	} `json:"encryption"`
}

func noEncryption(id uuid.UUID) error {
	return fault.NotFound("Volume type encryption for type %s does not exist.", id)
}

// has reports whether a body names a key of the encryption: null is a value.
func (r *request) has(key string) bool {
	document, _ := r.document.(map[string]any)
	object, _ := document["encryption"].(map[string]any)
	_, ok := object[key]
	return ok
}

// encryption gives the target's encryption, or nil.
func (c change) encryption(ctx context.Context) (*encryption, error) {
	row, err := c.GetVolumeTypeEncryption(ctx, c.target.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // most types have none
	}
	e := encryptionOf(row)
	return &e, err
}

// shown gives everything of a type's encryption; nothing when it has none.
func (a *API) shown(r *request) (map[string]any, uuid.UUID, error) {
	t, err := r.get(r.reading())
	if err != nil {
		return nil, t.ID, err
	}
	row, err := a.db.GetVolumeTypeEncryption(r.context(), t.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return map[string]any{}, t.ID, nil
	}
	return map[string]any{
		"volume_type_id": row.VolumeTypeID, "encryption_id": row.ID, "provider": row.Provider, "control_location": row.ControlLocation,
		"cipher": row.Cipher, "key_size": row.KeySize, "deleted": false, "deleted_at": nil,
		"created_at": moment(&row.CreatedAt), "updated_at": moment(row.UpdatedAt),
	}, t.ID, err
}

// moment writes a time as the block storage API does.
func moment(t *time.Time) *string {
	if t == nil {
		return nil
	}
	text := t.UTC().Format("2006-01-02T15:04:05.000000")
	return &text
}

func (a *API) showEncryption(r *request) (any, error) {
	shown, _, err := a.shown(r)
	if err != nil {
		return nil, err
	}
	return shown, nil
}

func (a *API) showEncryptionKey(r *request) (any, error) {
	shown, id, err := a.shown(r)
	if err != nil {
		return nil, err
	}
	value, ok := shown[r.param("key")]
	if !ok {
		return nil, noEncryption(id)
	}
	return map[string]any{r.param("key"): value}, nil
}

func (a *API) createEncryption(r *request) (any, error) {
	var body encryptionChange
	if err := r.decode(&body); err != nil {
		return nil, err
	}
	var made encryption
	err := r.change(func(ctx context.Context, c change) error {
		row, err := c.InsertVolumeTypeEncryption(ctx, schema.InsertVolumeTypeEncryptionParams{
			VolumeTypeID: c.target.ID, ID: r.id.Derive("volume type encryption"), Provider: *body.Encryption.Provider,
			ControlLocation: *body.Encryption.ControlLocation, Cipher: body.Encryption.Cipher, KeySize: size(body.Encryption.KeySize),
		})
		if violated(err) == "volume_type_encryption_pkey" {
			return fault.BadRequest("Volume type encryption for type %s already exists.", c.target.ID)
		}
		if err != nil {
			return err
		}
		made = encryptionOf(row)
		return c.record(ctx, encryptCreated, nil, made)
	})
	if err != nil {
		return nil, err
	}
	return map[string]encryption{"encryption": made}, nil
}

func size(n *validation.Integer) *int32 {
	if n == nil {
		return nil
	}
	size := int32(*n)
	return &size
}

// updateEncryption answers what was sent, as the block storage API does.
func (a *API) updateEncryption(r *request) (any, error) {
	var body encryptionChange
	if err := r.decode(&body); err != nil {
		return nil, err
	}
	if err := r.change(func(ctx context.Context, c change) error {
		before, err := c.encryption(ctx)
		if err != nil {
			return err
		}
		if before == nil {
			return noEncryption(c.target.ID)
		}
		wanted := *before
		if body.Encryption.Provider != nil {
			wanted.Provider = *body.Encryption.Provider
		}
		if body.Encryption.ControlLocation != nil {
			wanted.ControlLocation = *body.Encryption.ControlLocation
		}
		if r.has("cipher") {
			wanted.Cipher = body.Encryption.Cipher
		}
		if r.has("key_size") {
			wanted.KeySize = size(body.Encryption.KeySize)
		}
		row, err := c.UpdateVolumeTypeEncryption(ctx, schema.UpdateVolumeTypeEncryptionParams{
			VolumeTypeID: c.target.ID, Provider: wanted.Provider, ControlLocation: wanted.ControlLocation,
			Cipher: wanted.Cipher, KeySize: wanted.KeySize,
		})
		if err != nil {
			return err
		}
		return c.record(ctx, encryptUpdated, before, encryptionOf(row))
	}); err != nil {
		return nil, err
	}
	return r.document, nil
}

func (a *API) deleteEncryption(r *request) (any, error) {
	return nil, r.change(func(ctx context.Context, c change) error {
		before, err := c.encryption(ctx)
		if err != nil {
			return err
		}
		if before == nil {
			return noEncryption(c.target.ID)
		}
		if err := c.DeleteVolumeTypeEncryption(ctx, c.target.ID); err != nil {
			return err
		}
		return c.record(ctx, encryptDeleted, before, nil)
	})
}
