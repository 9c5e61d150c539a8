package controlplane

import (
	"cmp"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/storageversions"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/telemetry"
)

// newStorageVersionReporter returns the reporter of storage versions, or nil if reports are disabled,
// this server has no identity, or StorageVersions are not served.
func newStorageVersionReporter(s *settings, r *resources) (*storageversions.Reporter, error) {
	resource := storageversions.Resource()
	if !s.gates.Enabled(feature.StorageVersionAPI) || !s.gates.Enabled(feature.APIServerIdentity) || !r.builtin.served.Has(resource.GroupVersion(), resource.Resource) {
		return nil, nil
	}
	stored, err := r.builtin.uncached(resource.GroupResource())
	if err != nil {
		return nil, err
	}
	return storageversions.NewReporter(storageversions.ReporterConfig{
		ServerID: telemetry.ServerID(s.env.Network.Hostname), Builtin: builtinStorageVersions(r.builtin.served), Custom: r.definitions.StorageVersions,
		Storage: stored, Access: r.access.As(nil, manager),
	}), nil
}

// builtinStorageVersions returns the storage versions of built-in resources. A kind in several groups is
// listed for the first group. For example, events are listed for the core group, as in kube-apiserver.
func builtinStorageVersions(served *route.Static) []rest.StorageVersion {
	var all []rest.StorageVersion
	positions := map[*codec.Kind]int{} // in all
	for _, group := range served.Groups() {
		for _, version := range group.Versions {
			for _, r := range version.Resources {
				if r.StorageVersionHash == "" {
					continue
				}
				at, found := positions[r.Kind]
				if !found {
					at = len(all)
					positions[r.Kind], all = at, append(all, storageVersionOf(r))
				}
				all[at].AddServed(r)
			}
		}
	}
	return all
}

// storageVersionOf returns the storage version of a resource without its served versions.
func storageVersionOf(r *rest.Resource) rest.StorageVersion {
	v := rest.StorageVersion{GroupResource: r.GroupResource(), Encoding: cmp.Or(r.Kind.Stored, r.Kind.Hub).GVK.GroupVersion().String()}
	for _, version := range r.Kind.Versions {
		v.Decodable = append(v.Decodable, version.GVK.GroupVersion().String())
	}
	return v
}
