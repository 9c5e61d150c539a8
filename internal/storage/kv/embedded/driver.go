package embedded

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/driver"
)

// MemoryURL is the URL of an empty store in memory.
const MemoryURL = "memory:"

// URL returns the URL of the store in a directory. dir must be an absolute path.
func URL(dir string) string {
	path := filepath.ToSlash(dir)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a Windows path such as C:/data
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// Driver returns the driver of embedded stores. The URL of a store determines Dir and InMemory; config
// provides the other settings.
func Driver(config Config) driver.Driver {
	return driver.Driver{
		Schemes:   []string{"file", "memory"},
		InDataDir: true,
		Open: func(_ context.Context, c driver.Config) (kv.Backend, error) {
			dir, err := parseURL(c.URLs[0])
			if err != nil {
				return nil, err
			}
			config := config
			config.Dir, config.InMemory, config.Held = dir, dir == "", c.Held
			config.Logger, config.Registerer, config.Simulation = c.Logger, c.Registerer, c.Simulation
			store, err := Open(config)
			if err != nil {
				return nil, err // a nil *Store is not a nil kv.Backend
			}
			return store, nil
		},
	}
}

// parseURL returns the directory of a store, or "" for a store in memory.
func parseURL(text string) (dir string, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("parse the URL of the store: %w", err)
	}
	if u.Scheme == "memory" {
		return "", nil
	}
	if u.Path == "" {
		return "", fmt.Errorf("%s has no path", text)
	}
	if trimmed := u.Path[1:]; filepath.VolumeName(trimmed) != "" {
		return filepath.FromSlash(trimmed), nil
	}
	return filepath.FromSlash(u.Path), nil
}
