package main

import (
	"fmt"
	"os"
	"time"

	"strongroom/activities/imagekey"
)

type imageKeyCommand struct {
	Held    imageKeyHeld    `cmd:"" help:"List the keys that stay because too many images are gone at once."`
	Confirm imageKeyConfirm `cmd:"" help:"Say that these images are gone for good: their keys go."`
}

type imageKeyHeld struct {
	output
}

// Help is shown by --help.
func (imageKeyHeld) Help() string {
	return `Unless control.image_key_interval is 0, the key that strongroom made for an image goes
some time after the image. When more images than control.image_key_most_gone percent are
gone at once, the image store may have lost its database, or have got an older or
another one: no key goes then, and the audit lists them as held. Images that come back
are watched again as if nothing had happened.`
}

func (c imageKeyHeld) Run(r *run) error {
	_, pool, err := r.database()
	if err != nil {
		return err
	}
	defer pool.Close()
	keys, err := imagekey.Held(r, pool)
	if err != nil {
		return err
	}
	return c.print(keys, func(w *sheet) { heldRows(w, keys) })
}

func heldRows(w *sheet, keys []imagekey.HeldKey) {
	if len(keys) > 0 {
		w.header("IMAGE", "PROJECT", "SECRET", "GONE SINCE")
	}
	for _, k := range keys {
		w.row(k.Image, k.Project, k.Secret, k.GoneAt.UTC().Format(time.RFC3339))
	}
}

type imageKeyConfirm struct {
	output
	Project string `help:"Only of this project, by its id."`
	Yes     bool   `short:"y" help:"Do not ask."`
}

// Help is shown by --help.
func (imageKeyConfirm) Help() string {
	return `Make sure first that the image store is well: that it has the database it is to have, and
all of it. Then this says of the images whose keys are held (strongroom image-key held)
that they are gone because somebody deleted them. Each is asked for once more; one that
the image store still does not have costs its key, which nothing brings back: a copy of
the image, or a restored image store, cannot be read without it.

Exit code 0: the images are confirmed, or there were none; 1: nothing was changed.`
}

// confirmedKeys is what confirm prints.
type confirmedKeys struct {
	Confirmed int                `json:"confirmed"`
	Keys      []imagekey.HeldKey `json:"keys"`
}

func (c imageKeyConfirm) Run(r *run) error {
	_, pool, err := r.database()
	if err != nil {
		return err
	}
	defer pool.Close()
	held, err := imagekey.Held(r, pool)
	if err != nil {
		return err
	}
	result := confirmedKeys{Keys: []imagekey.HeldKey{}}
	for _, k := range held {
		if c.Project == "" || k.Project == c.Project {
			result.Keys = append(result.Keys, k)
		}
	}
	if len(result.Keys) > 0 && !c.Yes {
		question := fmt.Sprintf("The keys of %d images will be deleted, unless the image store has the images again.", len(result.Keys))
		if err := ask(os.Stdin, os.Stderr, question); err != nil {
			return err
		}
	}
	if result.Confirmed, err = imagekey.Confirm(r, pool, result.Keys); err != nil {
		return err
	}
	return c.print(result, func(w *sheet) {
		heldRows(w, result.Keys)
		w.note(fmt.Sprintf("images that are confirmed to be gone: %d", result.Confirmed))
	})
}
