package compute

import "slices"

// Topology is how a machine's CPUs are arranged: so many sockets of so many cores of so many threads.
type Topology struct{ Sockets, Cores, Threads int }

func (t Topology) cpus() int { return t.Sockets * t.Cores * t.Threads }

// fields gives the three numbers, in the order of topologyNames.
func (t *Topology) fields() [3]*int { return [3]*int{&t.Sockets, &t.Cores, &t.Threads} }

var topologyNames = [3]string{"sockets", "cores", "threads"}

// topologyOf arranges a machine's CPUs as flavor (hw:cpu_sockets, hw:cpu_max_sockets …) and image (hw_cpu_sockets, hw_cpu_max_sockets …) ask
// together, by Nova's rules: the image may narrow the flavor's bounds; with any wish of the image the flavor's do not count, nor do they where one
// is above a bound; and of all that are possible the one is taken that fulfils most wishes, with few threads and many sockets. nil: neither asks.
//
// Invalid: a bound of the image is above the flavor's, a wish of the image above a bound, or no arrangement is within the bounds.
func topologyOf(f Flavor, img Image) (*Topology, error) {
	var byFlavor, byImage, bound, most Topology // two wishes, what is said of bounds (0: nothing), and the bounds
	asked := false
	for i, name := range topologyNames {
		of := func(to *int, texts ...string) {
			for _, text := range texts {
				if n := number(text); n > 0 {
					*to, asked = n, true
				}
			}
		}
		of(byFlavor.fields()[i], f.ExtraSpecs["hw:cpu_"+name])
		of(byImage.fields()[i], img.Properties["hw_cpu_"+name])
		var flavors, images int
		of(&flavors, f.ExtraSpecs["hw:max_cpu_"+name], f.ExtraSpecs["hw:cpu_max_"+name]) // the one that Nova's API knows, and the one that its hosts read
		of(&images, img.Properties["hw_cpu_max_"+name])
		if flavors > 0 && images > flavors {
			return nil, Errorf(Invalid, "Image %s: its property hw_cpu_max_%s is %d, and flavor %s allows %d.", img.Name, name, images, f.Name, flavors)
		}
		*bound.fields()[i] = images
		if images == 0 {
			*bound.fields()[i] = flavors
		}
		if *most.fields()[i] = f.VCPUs; *bound.fields()[i] > 0 {
			*most.fields()[i] = min(f.VCPUs, *bound.fields()[i])
		}
	}
	if !asked {
		return nil, nil
	}
	wish := byImage
	if wish == (Topology{}) {
		if wish = byFlavor; wish.above(bound) >= 0 {
			wish = Topology{}
		}
	} else if i := wish.above(bound); i >= 0 {
		return nil, Errorf(Invalid, "Image %s: its property hw_cpu_%s is %d, and at most %d are allowed.", img.Name, topologyNames[i], *wish.fields()[i], *bound.fields()[i])
	}
	all := possibleTopologies(f.VCPUs, most)
	if len(all) == 0 {
		return nil, Errorf(Invalid, "%d CPUs cannot be arranged in at most %d sockets of at most %d cores of at most %d threads.", f.VCPUs, most.Sockets, most.Cores, most.Threads)
	}
	best := slices.MaxFunc(all, func(a, b Topology) int { return a.compare(b, wish) })
	return &best, nil
}

// above is the index of the first number that is above a bound, -1 if none is.
func (t Topology) above(bound Topology) int {
	for i, n := range t.fields() {
		if most := *bound.fields()[i]; most > 0 && *n > most {
			return i
		}
	}
	return -1
}

func possibleTopologies(cpus int, most Topology) (all []Topology) {
	for sockets := 1; sockets <= most.Sockets; sockets++ {
		if cpus%sockets != 0 {
			continue
		}
		for cores := 1; cores <= most.Cores && sockets*cores <= cpus; cores++ {
			t := Topology{Sockets: sockets, Cores: cores, Threads: cpus / sockets / cores}
			if t.cpus() == cpus && t.Threads <= most.Threads {
				all = append(all, t)
			}
		}
	}
	return all
}

// compare is above 0 where t is better than the other one.
func (t Topology) compare(other, wish Topology) int {
	for _, by := range []func(Topology) int{
		func(t Topology) (fulfilled int) {
			for i, n := range t.fields() {
				if *n == *wish.fields()[i] {
					fulfilled++
				}
			}
			return fulfilled
		},
		func(t Topology) int { return t.Sockets * t.Cores },
		func(t Topology) int { return t.Sockets },
	} {
		if a, b := by(t), by(other); a != b {
			return a - b
		}
	}
	return 0
}
