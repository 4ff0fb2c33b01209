package disk

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"time"

	"go.temporal.io/sdk/activity"

	"strongroom/compute"
)

// Progress is the heartbeat of a long transfer.
type Progress = compute.Progress

const progressEvery = 3 * time.Second

// progress counts what is written through it and reports it now and then.
type progress struct {
	Progress
	ctx  context.Context
	last time.Time
}

func (p *progress) Write(b []byte) (int, error) {
	p.reach(p.Done + int64(len(b)))
	return len(b), p.ctx.Err()
}

// reach says how many bytes are done.
func (p *progress) reach(done int64) {
	p.Done = done
	if activity.IsActivity(p.ctx) && time.Since(p.last) >= progressEvery {
		p.last = time.Now()
		activity.RecordHeartbeat(p.ctx, p.Progress)
	}
}

// percents reads what qemu-img's -p prints, "(12.34/100%)" over and over on one
// line, and tells the number.
func percents(tell func(float64)) io.Writer { return &percentReader{tell: tell} }

type percentReader struct {
	tell func(float64)
	rest []byte
}

func (r *percentReader) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	for {
		number, after, found := bytes.Cut(r.rest, []byte("/100%)"))
		if !found {
			r.rest = r.rest[max(0, len(r.rest)-32):]
			return len(p), nil
		}
		r.rest = after
		if n, err := strconv.ParseFloat(string(number[bytes.LastIndexByte(number, '(')+1:]), 64); err == nil {
			r.tell(n)
		}
	}
}
