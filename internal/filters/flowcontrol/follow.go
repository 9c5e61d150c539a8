package flowcontrol

import (
	"iter"
	"maps"
	"sync"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

func (c *Control) newFollowers() reflector.Followers {
	return reflector.Followers{
		flowcontrolv1.Resource("flowschemas"): follow(c, "flowschemas", c.schemas, func(o *flowcontrolv1.FlowSchema) *flowcontrolv1.FlowSchema {
			return &flowcontrolv1.FlowSchema{ObjectMeta: identity(o), Spec: o.Spec}
		}),
		flowcontrolv1.Resource("prioritylevelconfigurations"): follow(c, "prioritylevelconfigurations", c.levels, func(o *flowcontrolv1.PriorityLevelConfiguration) *flowcontrolv1.PriorityLevelConfiguration {
			return &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: identity(o), Spec: o.Spec}
		}),
	}
}

// identity returns the part of an object's metadata that a Control needs.
func identity(o codec.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.GetName(), UID: o.GetUID(), Generation: o.GetGeneration()}
}

// follow returns the follower of one resource. It stores the result of needed, which drops unused
// parts of an object.
func follow[T codec.Object](c *Control, name string, objects map[types.NamespacedName]T, needed func(T) T) *reflector.Follower[T] {
	return reflector.NewFollower(reflector.FollowerConfig[T]{
		Name: name, Logger: c.config.Logger, Metrics: c.config.Reflectors, Lock: sync.Locker(&c.mu),
		Read: func(record *codec.Record) (T, error) {
			obj, err := codec.SharedAs[T](record)
			if err != nil {
				return obj, err
			}
			return needed(obj), nil
		},
		Set: func(at types.NamespacedName, obj T) {
			before, known := objects[at]
			// Do not use at.Name: it is a substring of the storage key, which would stay in memory.
			objects[types.NamespacedName{Name: obj.GetName()}] = obj
			if !known || before.GetUID() != obj.GetUID() || before.GetGeneration() != obj.GetGeneration() {
				c.reconfigure()
			}
		},
		Remove: func(at types.NamespacedName) {
			if _, known := objects[at]; known {
				delete(objects, at)
				c.reconfigure()
			}
		},
		Names: iter.Seq[types.NamespacedName](maps.Keys(objects)),
	})
}
