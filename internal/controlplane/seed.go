package controlplane

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// seed stores the recorded objects of every cluster in one commit, if the result equals individual
// creations.
func (i *instance) seed(ctx context.Context) error {
	if !i.seedable() {
		return nil
	}
	prefix := i.keyPrefix() + "/"
	there, err := i.env.Backend.Range(ctx, kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), Limit: 1})
	if err != nil || len(there.Entries) > 0 {
		return err
	}
	entries, err := bootstrap.Seed(i.env.World.Now(), func(key string) types.UID { return i.env.World.UID(key) })
	if err != nil || len(entries) == 0 {
		return err
	}
	ops := make([]kv.Op, len(entries))
	for n, e := range entries {
		ops[n] = kv.Op{Key: prefix + e.Key, Kind: kv.OpPut, Value: e.Value}
	}
	result, err := i.env.Backend.Commit(ctx, ops...)
	switch {
	case errors.Is(err, kv.ErrNoSpace): // bootstrap continues when there is space
		return nil
	case err != nil:
		return fmt.Errorf("store the default objects of the cluster: %w", err)
	}
	if result.Committed {
		i.cluster.Seeded()
	}
	return nil
}

// seedable reports whether the recorded objects can be used for a first start: no other server can
// be starting, values are not encrypted, roles are aggregated here, and neither the audit log nor
// policies in files must process the creations.
func (i *instance) seedable() bool {
	return !i.env.Shared && i.env.Transformer == nil && i.aggregation != nil && i.audit == nil && len(i.manifests) == 0
}
