package compute

import "regexp"

var (
	hexSHA256 = regexp.MustCompile(`^[0-9a-f]{64}$`)
	hexSHA512 = regexp.MustCompile(`^[0-9a-f]{128}$`)
	// projectID is what a project's id may be, to be the name of a folder.
	projectID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// Digest gives what an image's record says of its bytes, in hex, and the hash that
// says it; false when it says nothing.
func (img Image) Digest() (hash, hex string, ok bool) {
	switch {
	case hexSHA256.MatchString(img.SHA256):
		return "sha256", img.SHA256, true
	case img.SHA256 == "" && hexSHA512.MatchString(img.SHA512):
		return "sha512", img.SHA512, true
	}
	return "", "", false
}

// CacheName names a host's copy of an image by image and content: an image that
// gets other bytes under the same id is another copy. That of an encrypted image is
// the project's for whose servers it is kept: "<project>/<copy>"; no other project
// is given it (EE-12). Invalid: no host can use the image.
func (img Image) CacheName(project string) (string, error) {
	_, hex, ok := img.Digest()
	if img.ID == (ImageID{}) || !ok {
		return "", Errorf(Invalid, "image %s has no sha256 to check it by", img.ID)
	}
	if _, err := img.BackingFormat(); err != nil {
		return "", err
	}
	name := img.ID.String() + "-" + hex[:16] + "." + img.DiskFormat
	switch {
	case !img.IsEncrypted():
		return name, nil
	case !projectID.MatchString(project):
		return "", Errorf(Invalid, "image %s is encrypted, and %q is no project to keep it for", img.ID, project)
	}
	return project + "/" + name, nil
}

// CacheUse names, for the ledger, that a disk of a server depends on a host's copy of
// an encrypted image: "<project>/<copy>/<server>.<file>". The copy goes with its
// last use.
func (img Image) CacheUse(project string, server ServerID, d Disk) (string, error) {
	name, err := img.CacheName(project)
	return name + "/" + server.String() + "." + d.Name(), err
}
