package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/storage/kv/driver"
)

// override is a separate store for some resources.
type override struct {
	urls      []string
	resources []schema.GroupResource
}

// errOverrideFormat is kube-apiserver's message.
var errOverrideFormat = errors.New("--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated")

// parseOverrides parses --etcd-servers-overrides. The result contains each set of servers once, in the order
// of the flag. If a resource has several overrides, the last one applies.
func parseOverrides(flags []string, drivers driver.List) ([]override, error) {
	var overrides []override
	var errs []error
	for _, flag := range flags {
		resource, urls, err := parseOverride(flag, drivers)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i := range overrides {
			overrides[i].resources = slices.DeleteFunc(overrides[i].resources, func(r schema.GroupResource) bool { return r == resource })
		}
		i := slices.IndexFunc(overrides, func(o override) bool { return slices.Equal(o.urls, urls) })
		if i < 0 {
			i = len(overrides)
			overrides = append(overrides, override{urls: urls})
		}
		overrides[i].resources = append(overrides[i].resources, resource)
	}
	unused := func(o override) bool { return len(o.resources) == 0 }
	return slices.DeleteFunc(overrides, unused), errors.Join(errs...)
}

func parseOverride(flag string, drivers driver.List) (resource schema.GroupResource, urls []string, err error) {
	parts := strings.Split(flag, "#")
	if len(parts) != 2 {
		return resource, nil, errOverrideFormat
	}
	group, name, ok := strings.Cut(parts[0], "/")
	if !ok || strings.Contains(name, "/") {
		return resource, nil, errOverrideFormat
	}
	resource, urls = schema.GroupResource{Group: group, Resource: name}, strings.Split(parts[1], ";")
	if err = controlplane.CheckOverride(resource); err == nil {
		_, err = findShared(drivers, urls)
	}
	if err != nil {
		return resource, nil, fmt.Errorf("--etcd-servers-overrides: %w", err)
	}
	return resource, urls, nil
}

// findShared returns the driver for URLs that a flag specifies. It returns an error if the URLs select the
// store of the data directory.
func findShared(drivers driver.List, urls []string) (driver.Driver, error) {
	d, err := drivers.Find(urls)
	if err == nil && d.InDataDir {
		err = fmt.Errorf("%q selects the store of --data-dir; the URL of another store is required", urls[0])
	}
	return d, err
}
