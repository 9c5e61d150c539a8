package controlplane

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/controllers/clusterroles"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// isSeparate reports whether the object with a key differs between control planes, processes or points in time.
// The ConfigMaps contain the certificates of the authorities and the date of the first start; the other objects
// contain the identity of the server.
func isSeparate(key string) bool {
	path, _, _ := strings.Cut(key, "/")
	return slices.Contains([]string{"configmaps", "leases", "storageversions"}, path)
}

// DefaultObjects returns the objects that a new control plane with these options creates when it is opened,
// except for objects that depend on its keys, on the process or on the time. In all objects, the timestamps are
// bootstrap.SeedTime and the UID is bootstrap.SeedUID. DefaultObjects opens a temporary control plane over
// env.Storage.Backend, which must be empty. It does not modify env. It returns an error if the options are
// invalid or the control plane cannot be opened. The caller owns the result.
func DefaultObjects(ctx context.Context, env *Env, options Options) ([]bootstrap.Stored, error) {
	recording := *env
	recording.Simulation = simulation.New(simulation.Config{Time: bootstrap.SeedTime(), UID: bootstrap.SeedUID})
	options.Controllers.Names = []string{noControllers, clusterroles.Name}
	const prefix = "/recording"
	plane, err := New(&recording, prefix, options)
	if err != nil {
		return nil, err
	}
	defer plane.Close()
	if err := plane.Open(ctx); err != nil {
		return nil, err
	}
	list, err := env.Storage.Backend.Range(ctx, kv.RangeRequest{Start: prefix + "/", End: kv.PrefixEnd(prefix + "/")})
	if err != nil {
		return nil, fmt.Errorf("record the default objects: %w", err)
	}
	var objects []bootstrap.Stored
	for _, e := range list.Entries {
		if key := e.Key[len(prefix)+1:]; !isSeparate(key) {
			objects = append(objects, bootstrap.Stored{Key: key, Value: e.Value})
		}
	}
	return objects, nil
}
