package custom

import "mainstay.dev/mainstay/internal/rest"

// StorageVersions returns the storage versions of all resources in discovery. Config.Changed
// reports changes. The caller owns the slice.
func (s *Source) StorageVersions() []rest.StorageVersion {
	var all []rest.StorageVersion
	for e := range s.current.Load().all() {
		if e.isDiscovered() {
			all = append(all, e.storedVersions())
		}
	}
	return all
}

func (e *entry) storedVersions() rest.StorageVersion {
	stored := rest.StorageVersion{Encoding: e.groupVersion(e.storageVersion().name).String()}
	stored.Group, stored.Resource = e.group, e.requested.plural
	for i := range e.versions {
		version := e.groupVersion(e.versions[i].name).String()
		stored.Decodable = append(stored.Decodable, version)
		if e.versions[i].served {
			stored.Served = append(stored.Served, version)
		}
	}
	return stored
}
