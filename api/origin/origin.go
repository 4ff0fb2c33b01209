// Package origin says where clients reach the API: what the links of its answers begin with.
package origin

import (
	"cmp"
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
	header  Header
}

// Header says which headers of a trusted proxy are believed. A proxy that sets the one kind
// passes the other on as its client sent it, so that is never looked at (M6).
type Header string

// The kinds of headers.
const (
	XForwarded Header = "x-forwarded" // X-Forwarded-Proto, -Host, -Port, -Prefix and -For
	Forwarded  Header = "forwarded"   // RFC 7239
)

// New makes an Origin. public is the URL of the API, "" for what each request says; proxies
// are the networks (CIDR) or addresses whose headers are believed, those that header says
// ("": XForwarded).
func New(public string, proxies []string, header Header) (Origin, error) {
	o := Origin{public: strings.TrimRight(public, "/"), header: cmp.Or(header, XForwarded)}
	if o.header != XForwarded && o.header != Forwarded {
		return o, fmt.Errorf("%q is no kind of headers: it must be %s or %s", header, XForwarded, Forwarded)
	}
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

// Of is what links of an answer begin with: scheme and host, and the path under which a proxy shows the API, if it says one (K23).
func (o Origin) Of(r *http.Request) string {
	if o.public != "" {
		return o.public
	}
	scheme, host, prefix := "http", r.Host, ""
	if r.TLS != nil {
		scheme = "https"
	}
	if host == "" { // HTTP/1.0: the address that it came to (K2)
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			host = local.String()
		}
	}
	if o.trusts(r.RemoteAddr) {
		said := o.said(r.Header)
		if said.scheme == "http" || said.scheme == "https" {
			scheme = said.scheme
		}
		if hostname.MatchString(said.host) {
			host = said.host
		}
		if port.MatchString(said.port) && !hasPort.MatchString(host) && said.port != "80" && said.port != "443" {
			host += ":" + said.port
		}
		if folder.MatchString(said.prefix) {
			prefix = strings.TrimRight(said.prefix, "/")
		}
	}
	return scheme + "://" + host + prefix
}

// trusts reports whether a request came from a trusted proxy.
func (o Origin) trusts(remote string) bool {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	return o.contains(address.Addr().Unmap())
}

func (o Origin) contains(ip netip.Addr) bool {
	return slices.ContainsFunc(o.proxies, func(network netip.Prefix) bool { return network.Contains(ip) })
}

// Client gives a request's client: behind trusted proxies the one that they name. Of several
// the last that is no trusted proxy counts, for those before it may be the client's own word.
func (o Origin) Client() echo.IPExtractor {
	if len(o.proxies) == 0 {
		return echo.ExtractIPDirect() // anybody may send such headers
	}
	if o.header == Forwarded {
		return o.forwardedFor
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, network := range o.proxies {
		mask := net.CIDRMask(network.Bits(), network.Addr().BitLen())
		options = append(options, echo.TrustIPRange(&net.IPNet{IP: network.Masked().Addr().AsSlice(), Mask: mask}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}

// forwardedFor is Client with Forwarded. A proxy may hide its client (for=_hidden): then
// the client is the proxy.
func (o Origin) forwardedFor(r *http.Request) string {
	client := echo.ExtractIPDirect()(r)
	if !o.trusts(r.RemoteAddr) {
		return client
	}
	for element := range elements(r.Header.Values("Forwarded")) {
		ip, ok := node(parameters(element)["for"])
		if !ok {
			break
		}
		client = ip.String()
		if !o.contains(ip) {
			break
		}
	}
	return client
}

// node reads a node of RFC 7239: 192.0.2.43, 192.0.2.43:47011, [2001:db8::17], [2001:db8::17]:4711.
func node(text string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap(), true
	}
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return ip.Unmap(), err == nil
}

var hostname = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?$`)

var (
	port    = regexp.MustCompile(`^[1-9][0-9]{0,4}$`)
	hasPort = regexp.MustCompile(`:[0-9]+$`)
	folder  = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+/?$`)
)

type place struct{ scheme, host, port, prefix string }

// said reads what the nearest proxy says: the last element of a header, for those before
// it may be the client's own.
func (o Origin) said(h http.Header) place {
	if o.header == Forwarded {
		for element := range elements(h.Values("Forwarded")) {
			pairs := parameters(element)
			return place{scheme: strings.ToLower(pairs["proto"]), host: pairs["host"]}
		}
		return place{}
	}
	return place{
		scheme: strings.ToLower(last(h.Values("X-Forwarded-Proto"))), host: last(h.Values("X-Forwarded-Host")),
		port: last(h.Values("X-Forwarded-Port")), prefix: last(h.Values("X-Forwarded-Prefix")),
	}
}

func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	elements := strings.Split(values[len(values)-1], ",")
	return strings.TrimSpace(elements[len(elements)-1])
}
