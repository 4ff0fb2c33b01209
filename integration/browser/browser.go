// Package browser lets a test use what people see: a Chromium without a window, of Debian's.
package browser

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
)

// PicturesVariable names the folder in which pictures of what the browser shows are kept.
const PicturesVariable = "STRONGROOM_TEST_PICTURES"

// patience is for a page, on a machine that does other things too.
const patience = 3 * time.Minute

// Browser is one user's. It ends with the test.
type Browser struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // chromedp's own way: it is the browser
}

// Open starts a browser with nothing in it.
func Open(t *testing.T) Browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1400, 900),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(patience))
	allocated, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Run(ctx)) // starts it, for longer than one step
	return Browser{t, ctx}
}

// Does takes steps on the page; what the page says is in the failure of one.
func (b Browser) Does(steps ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, steps...); err != nil {
		var page string
		_ = chromedp.Run(b.ctx, chromedp.Text("body", &page))
		require.NoError(b.t, err, "%s", page)
	}
}

// Goes opens an address.
func (b Browser) Goes(address string) {
	b.t.Helper()
	b.Does(chromedp.Navigate(address), chromedp.WaitReady("body"))
}

// Shows waits until the page has a text, and gives all of its.
func (b Browser) Shows(text string) (all string) {
	b.t.Helper()
	await.For(b.t, "the page shows "+text, func() bool {
		b.Does(chromedp.Text("body", &all, chromedp.ByQuery))
		return strings.Contains(all, text)
	}, await.Witness{Name: "page", Look: func() string { return all }})
	return all
}

// Holds waits until an expression of JavaScript is true on the page.
func (b Browser) Holds(expression string) {
	b.t.Helper()
	await.For(b.t, expression+" is true", func() (holds bool) {
		b.Does(chromedp.Evaluate(expression, &holds))
		return holds
	})
}

// Picture keeps what is seen, where somebody asked for pictures.
func (b Browser) Picture(name string) {
	b.t.Helper()
	dir := os.Getenv(PicturesVariable)
	if dir == "" {
		return
	}
	var png []byte
	b.Does(chromedp.Sleep(2*time.Second), chromedp.CaptureScreenshot(&png))
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
}
