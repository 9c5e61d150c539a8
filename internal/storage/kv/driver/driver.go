// Package driver defines the interface between a server and the backends of its store. A backend package
// provides a Driver; the server selects one by the scheme of the store's URL.
package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// Driver opens the stores of one backend.
type Driver struct {
	// Schemes are the schemes of the backend's URLs.
	Schemes []string
	// Shared is set if several processes can use a store at the same time.
	Shared bool
	// InDataDir is set if the store is in the server's data directory.
	InDataDir bool
	// Check returns an error that describes all invalid URLs of one store. It does not access the
	// store. If Check is nil, all URLs are valid.
	Check func(urls []string) error
	// Open opens a store, and creates it if it does not exist. It blocks until the store responds or
	// ctx ends. The caller closes the store.
	Open func(ctx context.Context, config Config) (kv.Backend, error)
}

// Config describes a store and the environment of a backend.
type Config struct {
	// URLs are the URLs of one store. Several URLs are those of the members of one cluster.
	URLs []string
	// Prefix is the prefix of the server's keys. A shared store may contain other keys.
	Prefix string
	// ID identifies the store in metrics; "" selects the backend's default.
	ID string
	// Held is a revision from which a reader will continue, so the backend must not compact it soon after it
	// was opened; 0 means none. A shared store may still compact it.
	Held kv.Revision
	// Dial connects to the store; nil connects directly.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
	// Registerer registers the metrics of the store; nil disables them.
	Registerer prometheus.Registerer
	// Simulation is the simulated clock for the expiry of keys; nil means the real clock.
	Simulation *simulation.Simulation
}

// List is a list of drivers, which have distinct schemes.
type List []Driver

// Find returns the driver of a store and checks the URLs. It returns an error if there is no URL, if a
// scheme is unknown, or if the URLs have schemes of different drivers.
func (l List) Find(urls []string) (Driver, error) {
	if len(urls) == 0 {
		return Driver{}, errors.New("the URL of the store is missing")
	}
	var found *Driver
	for _, text := range urls {
		d, err := l.find(text)
		if err != nil {
			return Driver{}, err
		}
		if found != nil && found != d {
			return Driver{}, fmt.Errorf("%s and %s are URLs of different storage backends", urls[0], text)
		}
		found = d
	}
	if found.Check == nil {
		return *found, nil
	}
	return *found, found.Check(urls)
}

func (l List) find(text string) (*Driver, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		return nil, fmt.Errorf("%q is not a URL such as https://10.0.0.1:2379", text)
	}
	i := slices.IndexFunc(l, func(d Driver) bool { return slices.Contains(d.Schemes, u.Scheme) })
	if i < 0 {
		return nil, fmt.Errorf("%s: there is no storage backend with the scheme %q; the schemes are %s", text, u.Scheme, strings.Join(l.schemes(), ", "))
	}
	return &l[i], nil
}

func (l List) schemes() []string {
	var schemes []string
	for _, d := range l {
		schemes = append(schemes, d.Schemes...)
	}
	return schemes
}
