package controlplane

import (
	"cmp"

	coordinationv1 "k8s.io/api/coordination/v1"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/storageversions"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/telemetry"
)

// openStorageVersions creates the reporter of storage versions, if it is enabled, this server has
// an identity, and StorageVersions are served.
func (i *instance) openStorageVersions() error {
	of := storageversions.Resource()
	gates := i.rows.Gates
	if !gates.Enabled(feature.StorageVersionAPI) || !gates.Enabled(feature.APIServerIdentity) || i.served.Find(of.GroupVersion(), of.Resource, "") == nil {
		return nil
	}
	stored, err := i.uncached(of.GroupResource())
	if err != nil {
		return err
	}
	i.storageVersions = storageversions.NewReporter(storageversions.ReporterConfig{
		ServerID: telemetry.ServerID(i.env.Hostname), Builtin: builtinStorageVersions(i.served), Custom: i.custom.StorageVersions,
		Stored: stored, Access: i.local.As(nil, manager),
	})
	return nil
}

// openStorageVersionCollector creates the collector, if storage versions are reported.
func (i *instance) openStorageVersionCollector() error {
	if i.storageVersions == nil {
		return nil
	}
	versions, err := i.uncached(storageversions.Resource().GroupResource())
	if err != nil {
		return err
	}
	leases, err := i.uncached(coordinationv1.Resource("leases"))
	if err != nil {
		return err
	}
	i.add(storageversions.Name, storageversions.NewCollector(storageversions.CollectorConfig{
		Versions: versions, Leases: leases, Identities: bootstrap.IdentitySelector(), Access: i.local, Logger: i.env.Logger,
	}))
	return nil
}

// builtinStorageVersions returns the storage versions of built-in resources. A kind in several
// groups is listed for the first one: events for the core group, as in kube-apiserver.
func builtinStorageVersions(served *route.Static) []rest.StorageVersion {
	var all []rest.StorageVersion
	places := map[*codec.Kind]int{}
	for _, group := range served.Groups() {
		for _, version := range group.Versions {
			for _, r := range version.Resources {
				if r.StorageVersionHash == "" {
					continue
				}
				at, found := places[r.Kind]
				if !found {
					at = len(all)
					places[r.Kind], all = at, append(all, storageVersionOf(r))
				}
				all[at].AddServed(r)
			}
		}
	}
	return all
}

// storageVersionOf returns the storage version without the served versions.
func storageVersionOf(r *rest.Resource) rest.StorageVersion {
	v := rest.StorageVersion{GroupResource: r.GroupResource(), Encoding: cmp.Or(r.Kind.Stored, r.Kind.Hub).GVK.GroupVersion().String()}
	for _, version := range r.Kind.Versions {
		v.Decodable = append(v.Decodable, version.GVK.GroupVersion().String())
	}
	return v
}
