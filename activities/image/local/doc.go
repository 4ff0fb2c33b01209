// Package local is an image library in a folder: a record "<id>.json" per image
// and, once it is active, its data in "<id>.<sha256>".
//
// The record is the image. It is written after the data and removed before it,
// so a crash leaves a whole image, a queued one, or none; data that no record
// names is cleared at the next start. The data's name holds its digest: a
// reader never meets the data of another generation of the same id.
package local
