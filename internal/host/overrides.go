package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/storage/kv/etcd"
)

// override is an etcd cluster for some resources.
type override struct {
	endpoints []string
	resources []schema.GroupResource
}

// errOverrideFormat is kube-apiserver's.
var errOverrideFormat = errors.New("--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated")

// parseOverrides parses --etcd-servers-overrides. Each set of servers occurs once, in the order of
// the flag. The last override of a resource applies.
func parseOverrides(flags []string) ([]override, error) {
	var overrides []override
	var errs []error
	for _, flag := range flags {
		resource, endpoints, err := parseOverride(flag)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i := range overrides {
			overrides[i].resources = slices.DeleteFunc(overrides[i].resources, func(r schema.GroupResource) bool { return r == resource })
		}
		i := slices.IndexFunc(overrides, func(o override) bool { return slices.Equal(o.endpoints, endpoints) })
		if i < 0 {
			i = len(overrides)
			overrides = append(overrides, override{endpoints: endpoints})
		}
		overrides[i].resources = append(overrides[i].resources, resource)
	}
	unused := func(o override) bool { return len(o.resources) == 0 }
	return slices.DeleteFunc(overrides, unused), errors.Join(errs...)
}

func parseOverride(flag string) (resource schema.GroupResource, endpoints []string, err error) {
	parts := strings.Split(flag, "#")
	if len(parts) != 2 {
		return resource, nil, errOverrideFormat
	}
	group, name, ok := strings.Cut(parts[0], "/")
	if !ok || strings.Contains(name, "/") {
		return resource, nil, errOverrideFormat
	}
	resource, endpoints = schema.GroupResource{Group: group, Resource: name}, strings.Split(parts[1], ";")
	if err = controlplane.CheckOverride(resource); err == nil {
		err = (etcd.Config{Endpoints: endpoints}).Check()
	}
	if err != nil {
		return resource, nil, fmt.Errorf("--etcd-servers-overrides: %w", err)
	}
	return resource, endpoints, nil
}

// openOverrides opens the clusters that keep single resources.
func (h *Host) openOverrides(ctx context.Context) error {
	overrides, err := parseOverrides(h.config.EtcdServersOverrides)
	if err != nil {
		return err
	}
	for i, o := range overrides {
		o.resources = slices.DeleteFunc(o.resources, func(r schema.GroupResource) bool {
			ignored := !controlplane.Overridable(r)
			if ignored {
				h.logger.Warn("--etcd-servers-overrides names a resource that is not kept elsewhere: this is ignored", "resource", r.String())
			}
			return ignored
		})
		config := h.config.etcdConfig()
		config.Endpoints, config.ClusterID = o.endpoints, fmt.Sprintf("etcd-%d", i+1)
		if strings.HasPrefix(o.endpoints[0], "http:") {
			config.CAFile, config.CertFile, config.KeyFile = "", "", "" // which belong to --etcd-servers
		}
		backend, err := h.openCluster(ctx, config)
		if err != nil {
			return fmt.Errorf("--etcd-servers-overrides: %w", err)
		}
		h.overrides = append(h.overrides, controlplane.Override{Resources: o.resources, Backend: backend})
	}
	return nil
}
