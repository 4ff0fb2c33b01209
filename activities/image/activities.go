package image

import "strongroom/compute"

// The registered names of the activities.
const (
	Create   = "image.Create"   // cloud queue
	Describe = "image.Describe" // cloud queue
	Delete   = "image.Delete"   // cloud queue
	Upload   = "image.Upload"   // a host's bulk queue
)

// CreateInput asks for the record of an image with an id of the operation's.
type CreateInput struct {
	Credential compute.Credential `json:"credential"`
	Image      compute.Image      `json:"image"`
}

// CreateResult is the record as the image store has it.
type CreateResult struct {
	Image compute.Image `json:"image"`
}

// DescribeInput asks that an image has these properties, beside those that it has.
type DescribeInput struct {
	Credential compute.Credential `json:"credential"`
	Image      compute.ImageID    `json:"image"`
	Properties map[string]string  `json:"properties"`
}

// UploadInput asks that an exported file becomes the data of a queued image.
type UploadInput struct {
	Credential compute.Credential `json:"credential"`
	Image      compute.ImageID    `json:"image"`
	File       string             `json:"file"` // compute.Export's
}

// UploadResult is what the image store says of the data.
type UploadResult struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"` // hex; one of the two, as the image store keeps it
	SHA512 string `json:"sha512,omitempty"`
}

// DeleteInput names the image to remove, record and data.
type DeleteInput struct {
	Credential compute.Credential `json:"credential"`
	// Others are tried in turn where the image store refuses Credential.
	Others []compute.Credential `json:"others,omitempty"`
	Image  compute.ImageID      `json:"image"`
}
