package api

import (
	"maps"

	"github.com/google/uuid"

	"strongroom/compute"
)

// basicImage shows an image in a list.
func (a *API) basicImage(r *Request, img compute.Image) map[string]any {
	return map[string]any{"id": img.ID, "name": orNull(img.Name), "links": a.imageLinks(r, img.ID)}
}

// viewImage shows an image in full.
func (a *API) viewImage(r *Request, img compute.Image) map[string]any {
	shown := shownProperties(img)
	view := a.basicImage(r, img)
	view["minRam"], view["minDisk"], view["metadata"] = img.MinRAMMB, img.MinDiskGB, shown
	view["created"], view["updated"] = seconds(img.CreatedAt), seconds(img.UpdatedAt)
	view["status"], view["progress"], view["OS-EXT-IMG-SIZE:size"] = imageStatus(img), imageProgress[img.Status], img.SizeBytes
	if id, err := uuid.Parse(shown[compute.ServerProperty]); err == nil {
		view["server"] = map[string]any{"id": id, "links": r.Links("servers", id.String())}
	}
	if text, said := shown["auto_disk_config"]; said {
		view["OS-DCF:diskConfig"] = "MANUAL"
		if yes, err := compute.ParseBool(text); err == nil && yes {
			view["OS-DCF:diskConfig"] = "AUTO"
		}
	}
	return view
}

// imageLinks are the links of an image, the last one of which is at the image service.
func (a *API) imageLinks(r *Request, id compute.ImageID) []Link {
	links := r.Links("images", id.String())
	if address := a.imageURL(r, id.UUID); address != "" {
		links = append(links, Link{Rel: "alternate", Type: "application/vnd.openstack.image", Href: address})
	}
	return links
}

// shownProperties are the properties of an image but for those that say how it is opened.
func shownProperties(img compute.Image) map[string]string {
	shown := maps.Clone(orEmpty(img.Properties))
	maps.DeleteFunc(shown, func(name, _ string) bool { return compute.OpensImage(name) })
	return shown
}

// imageStatuses are Nova's words for the image store's.
var imageStatuses = map[string]string{
	"active": "ACTIVE", "queued": "SAVING", "saving": "SAVING", "deleted": "DELETED", "pending_delete": "DELETED", "killed": "ERROR",
}

func imageStatus(img compute.Image) string {
	if status, known := imageStatuses[img.Status]; known {
		return status
	}
	return "UNKNOWN"
}

var imageProgress = map[string]int{"queued": 25, "saving": 50, "active": 100}
