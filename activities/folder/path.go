package folder

import (
	"errors"
	"io/fs"
	"os"
)

// WithoutPath gives what went wrong with a file without where it is, which is nothing for a
// server's owner.
func WithoutPath(err error) error {
	var path *fs.PathError
	var link *os.LinkError // of a file that takes another's place
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
