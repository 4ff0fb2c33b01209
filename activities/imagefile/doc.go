// Package imagefile looks at the files of images, which tenants made and may have made
// to harm: at what their headers say before any program reads them, and with
// programs that can do nothing but read that one file, at a bounded cost.
package imagefile
