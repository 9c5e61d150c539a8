package flowcontrol

import (
	"iter"
	"maps"
	"sync"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/storage/reflector"
)

func (c *Control) newFollowers() reflector.Followers {
	return reflector.Followers{
		flowcontrolv1.Resource("flowschemas"):                 follow(c, "flowschemas", c.schemas),
		flowcontrolv1.Resource("prioritylevelconfigurations"): follow(c, "prioritylevelconfigurations", c.levels),
	}
}

// follow returns what keeps the objects of one kind.
func follow[T codec.Object](c *Control, name string, objects map[types.NamespacedName]T) *reflector.Follower[T] {
	return reflector.NewFollower(reflector.FollowerConfig[T]{
		Name: name, Logger: c.config.Logger, Metrics: c.config.Reflectors, Lock: sync.Locker(&c.mu),
		Read: codec.SharedAs[T],
		Set: func(at types.NamespacedName, obj T) {
			before, known := objects[at]
			objects[at] = obj
			if !known || before.GetUID() != obj.GetUID() || before.GetGeneration() != obj.GetGeneration() {
				c.changed()
			}
		},
		Remove: func(at types.NamespacedName) {
			if _, known := objects[at]; known {
				delete(objects, at)
				c.changed()
			}
		},
		Names: iter.Seq[types.NamespacedName](maps.Keys(objects)),
	})
}
