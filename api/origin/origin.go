// Package origin says where clients reach the API: what the links of its answers begin with.
package origin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// Origin is where clients reach the API. The zero value believes the request alone.
type Origin struct {
	public  string
	proxies []netip.Prefix
}

// New makes an Origin. public is the URL of the API, "" for what each request says; proxies
// are the networks (CIDR) or addresses whose X-Forwarded- headers and Forwarded are believed.
func New(public string, proxies []string) (Origin, error) {
	o := Origin{public: strings.TrimRight(public, "/")}
	if public != "" {
		u, err := url.Parse(public)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return o, fmt.Errorf("%q is no URL of an API: it must be like https://compute.example.com", public)
		}
	}
	for _, text := range proxies {
		network, err := parse(text)
		if err != nil {
			return o, fmt.Errorf("%q is no network of trusted proxies: it must be like 192.0.2.0/24 or 192.0.2.7", text)
		}
		o.proxies = append(o.proxies, network)
	}
	return o, nil
}

func parse(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

// Of is the scheme and host that links of an answer begin with.
func (o Origin) Of(r *http.Request) string {
	if o.public != "" {
		return o.public
	}
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if o.trusts(r.RemoteAddr) {
		said := forwarded(r.Header)
		if said.scheme == "http" || said.scheme == "https" {
			scheme = said.scheme
		}
		if hostname.MatchString(said.host) {
			host = said.host
		}
	}
	return scheme + "://" + host
}

// trusts reports whether a request came from a trusted proxy.
func (o Origin) trusts(remote string) bool {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	ip := address.Addr().Unmap()
	return slices.ContainsFunc(o.proxies, func(network netip.Prefix) bool { return network.Contains(ip) })
}

// Client gives a request's client: behind trusted proxies the one that they name.
func (o Origin) Client() echo.IPExtractor {
	if len(o.proxies) == 0 {
		return echo.ExtractIPDirect() // anybody may send X-Forwarded-For
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, network := range o.proxies {
		mask := net.CIDRMask(network.Bits(), network.Addr().BitLen())
		options = append(options, echo.TrustIPRange(&net.IPNet{IP: network.Masked().Addr().AsSlice(), Mask: mask}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}

var hostname = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?$`)

type place struct{ scheme, host string }

// forwarded reads what the nearest proxy says: the last element of each header, for those
// before it may be the client's own. Forwarded (RFC 7239) goes before X-Forwarded-.
func forwarded(h http.Header) (p place) {
	for _, pair := range strings.Split(last(h.Values("Forwarded")), ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "proto":
			p.scheme = strings.ToLower(value)
		case "host":
			p.host = value
		}
	}
	if p != (place{}) {
		return p
	}
	return place{strings.ToLower(last(h.Values("X-Forwarded-Proto"))), last(h.Values("X-Forwarded-Host"))}
}

func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	elements := strings.Split(values[len(values)-1], ",")
	return strings.TrimSpace(elements[len(elements)-1])
}
