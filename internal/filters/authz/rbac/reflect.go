package rbac

import (
	"iter"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

func (a *Authorizer) newFollowers(metrics *reflector.Metrics) reflector.Followers {
	x := &a.index
	return reflector.Followers{
		rbacv1.Resource("clusterroles"): follow(a, metrics, "clusterroles", namesOf(x.eachRole, true), x.removeRole,
			func(at roleKey, r *rbacv1.ClusterRole) { x.setRole(at, r.Rules) }),
		rbacv1.Resource("roles"): follow(a, metrics, "roles", namesOf(x.eachRole, false), x.removeRole,
			func(at roleKey, r *rbacv1.Role) { x.setRole(at, r.Rules) }),
		rbacv1.Resource("clusterrolebindings"): follow(a, metrics, "clusterrolebindings", namesOf(x.eachBinding, true), x.removeBinding,
			func(at roleKey, b *rbacv1.ClusterRoleBinding) { x.setBinding(at, b.RoleRef, b.Subjects) }),
		rbacv1.Resource("rolebindings"): follow(a, metrics, "rolebindings", namesOf(x.eachBinding, false), x.removeBinding,
			func(at roleKey, b *rbacv1.RoleBinding) { x.setBinding(at, b.RoleRef, b.Subjects) }),
	}
}

// follow returns the follower of one resource. An object that cannot be decoded grants no
// permissions.
func follow[T codec.Object](a *Authorizer, metrics *reflector.Metrics, name string, names iter.Seq[types.NamespacedName], remove func(roleKey), set func(roleKey, T)) *reflector.Follower[T] {
	return reflector.NewFollower(reflector.FollowerConfig[T]{
		Name: name, Logger: a.logger, Metrics: metrics, Lock: &a.mu,
		Read:        codec.SharedAs[T],
		Set:         func(at types.NamespacedName, obj T) { set(keyOf(at), obj) },
		Remove:      func(at types.NamespacedName) { remove(keyOf(at)) },
		Names:       names,
		SetRevision: a.index.setRevision,
	})
}

func keyOf(name types.NamespacedName) roleKey { return roleKey{name.Namespace, name.Name} }

func namesOf(each func(cluster bool, yield func(roleKey) bool), cluster bool) iter.Seq[types.NamespacedName] {
	return func(yield func(types.NamespacedName) bool) {
		each(cluster, func(at roleKey) bool { return yield(types.NamespacedName{Namespace: at.namespace, Name: at.name}) })
	}
}
