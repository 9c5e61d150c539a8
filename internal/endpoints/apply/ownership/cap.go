package ownership

import (
	"cmp"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxUpdaters is the maximum number of update entries of an object. If there are more, the oldest entries are
// merged.
const maxUpdaters = 10

// ancientManager is the manager of the entries into which the oldest entries are merged.
const ancientManager = "ancient-changes"

// ownerID returns the identifier by which apimachinery orders owners.
func (k *Kind) ownerID(o owner) string {
	text, err := json.Marshal(metav1.ManagedFieldsEntry{
		Manager: o.manager, Operation: o.operation, APIVersion: o.apiVersion, Subresource: o.subresource,
	})
	if err != nil {
		return "" // cannot happen: an entry without a set and a time can always be encoded
	}
	return string(text)
}

// capUpdaters merges the oldest update entries until at most maxUpdaters remain.
func (k *Kind) capUpdaters(w *workspace, entries []entry) []entry {
	var updaters []entry
	for _, e := range entries {
		if e.operation == metav1.ManagedFieldsOperationUpdate {
			updaters = append(updaters, e)
		}
	}
	if len(updaters) <= maxUpdaters {
		return entries
	}
	slices.SortStableFunc(updaters, func(a, b entry) int {
		return cmp.Or(cmp.Compare(seconds(a.time), seconds(b.time)), cmp.Compare(k.ownerID(a.owner), k.ownerID(b.owner)))
	})
	bucket := owner{ancientManager, metav1.ManagedFieldsOperationUpdate, k.apiVersion, ""}
	first := updaters[0].owner
	left := len(updaters)
	for _, old := range updaters[1:] {
		if left <= maxUpdaters {
			break
		}
		if ownedBy(entries, bucket) == nil {
			ownedBy(entries, first).owner = bucket
		}
		// As in apimachinery, if the bucket is among the merged entries, it is merged into itself and
		// removed.
		into := ownedBy(entries, bucket)
		into.setNodes(w.union(old.nodes, into.nodes))
		into.time = old.time
		entries = slices.DeleteFunc(entries, func(e entry) bool { return e.owner == old.owner })
		left--
	}
	return entries
}
