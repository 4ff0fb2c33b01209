package devcloud

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"strongroom/activities/image"
)

// upload is PUT /v2/images/{id}/file.
func (i *images) upload(c echo.Context) error {
	media, _, _ := strings.Cut(c.Request().Header.Get("Content-Type"), ";")
	if strings.TrimSpace(media) != "application/octet-stream" {
		return fault(http.StatusUnsupportedMediaType, "The media type of an image's data is application/octet-stream.")
	}
	img, cred, err := i.find(c)
	if err != nil {
		return err
	}
	if err := i.library.Upload(c.Request().Context(), cred, img.ID, c.Request().Body); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// download is GET /v2/images/{id}/file.
func (i *images) download(c echo.Context) error {
	img, cred, err := i.find(c)
	if err != nil {
		return err
	}
	if img.Status != image.StatusActive {
		return c.NoContent(http.StatusNoContent)
	}
	data, err := i.library.Open(c.Request().Context(), cred, img.ID)
	if err != nil {
		return err
	}
	defer func() { _ = data.Close() }()
	c.Response().Header().Set("Content-Type", "application/octet-stream")
	c.Response().Header().Set("Content-Length", strconv.FormatInt(img.SizeBytes, 10))
	c.Response().WriteHeader(http.StatusOK)
	if err := copyBehind(c.Response(), data); err != nil {
		i.cfg.Logger.ErrorContext(c.Request().Context(), "a download broke off", "image", img.ID.String(), "error", err)
		panic(http.ErrAbortHandler) // the client must not take what it has for whole
	}
	return nil
}

// copyBehind copies one block behind what it reads: the last bytes leave only
// when the reader has found all of them to be right.
func copyBehind(w io.Writer, r io.Reader) error {
	block, next := make([]byte, 256<<10), make([]byte, 256<<10)
	n, err := io.ReadFull(r, block)
	for err == nil {
		var ahead int
		ahead, err = io.ReadFull(r, next)
		if !isEnd(err) && err != nil {
			return err
		}
		if _, err := w.Write(block[:n]); err != nil {
			return err
		}
		block, next, n = next, block, ahead
	}
	if !isEnd(err) {
		return err
	}
	_, err = w.Write(block[:n])
	return err
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
