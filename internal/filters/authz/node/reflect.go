package node

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

func (a *Authorizer) newFollowers(c *Config) reflector.Followers {
	g := &a.graph
	return reflector.Followers{
		corev1.Resource("pods"):                           follow(a, c, "pods", podRefsOf, g.setPod, g.removePod, maps.Keys(g.pods)),
		corev1.Resource("persistentvolumes"):              follow(a, c, "persistentvolumes", volumeRefsOf, g.setVolume, g.removeVolume, maps.Keys(g.volumes)),
		storagev1.Resource("volumeattachments"):           followOwned(a, c, "volumeattachments", g.attachments, func(o *storagev1.VolumeAttachment) string { return o.Spec.NodeName }),
		resourcev1.Resource("resourceslices"):             followOwned(a, c, "resourceslices", g.slices, sliceNode),
		certificatesv1.Resource("podcertificaterequests"): followOwned(a, c, "podcertificaterequests", g.certificates, certificateNode),
	}
}

func followOwned[T codec.Object](a *Authorizer, c *Config, name string, of owners, nodeOf func(T) string) *reflector.Follower[string] {
	return follow(a, c, name, nodeOf,
		func(at types.NamespacedName, node string) { a.graph.setOwner(of, at, node) },
		func(at types.NamespacedName) { a.graph.removeOwner(of, at) },
		maps.Keys(of))
}

// follow returns the follower of one resource. An object that cannot be decoded has no relations.
func follow[T codec.Object, R any](a *Authorizer, c *Config, name string, read func(T) R, set func(types.NamespacedName, R), remove func(types.NamespacedName), names iter.Seq[types.NamespacedName]) *reflector.Follower[R] {
	return reflector.NewFollower(reflector.FollowerConfig[R]{
		Name: name, Logger: c.Logger, Metrics: c.Metrics, Lock: &a.mu,
		Read: func(record *codec.Record) (R, error) {
			obj, err := codec.AsWrittenAs[T](record)
			if err != nil {
				var none R
				return none, err
			}
			return read(obj), nil
		},
		Set: set, Remove: remove, Names: names,
	})
}

// podRefsOf returns the references of a pod. The references of a mirror pod are ignored, because
// kubelets create mirror pods and could otherwise grant themselves access to any object.
func podRefsOf(p *corev1.Pod) podRefs {
	refs := podRefs{node: p.Spec.NodeName}
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror || refs.node == "" {
		return refs
	}
	add := func(k kind) func(string) {
		return func(name string) { refs.objects = append(refs.objects, objectKey{k, p.Namespace, name}) }
	}
	if account := p.Spec.ServiceAccountName; account != "" {
		add(serviceAccounts)(account)
	}
	podspec.EachSecret(&p.Spec, add(secrets))
	podspec.EachConfigMap(&p.Spec, add(configMaps))
	podspec.EachClaim(p, add(claims))
	podspec.EachResourceClaim(p, add(resourceClaims))
	slices.SortStableFunc(refs.objects, func(a, b objectKey) int { return cmp.Or(cmp.Compare(a.kind, b.kind), strings.Compare(a.name, b.name)) })
	refs.objects = slices.Compact(refs.objects)
	return refs
}

func volumeRefsOf(pv *corev1.PersistentVolume) volumeRefs {
	claim := pv.Spec.ClaimRef
	if claim == nil {
		return volumeRefs{}
	}
	refs := volumeRefs{bound: true, claim: objectKey{claims, claim.Namespace, claim.Name}}
	podspec.EachVolumeSecret(pv, func(namespace, name string) {
		refs.secrets = append(refs.secrets, objectKey{secrets, namespace, name})
	})
	return refs
}

func sliceNode(s *resourcev1.ResourceSlice) string {
	if s.Spec.NodeName == nil {
		return ""
	}
	return *s.Spec.NodeName
}

func certificateNode(r *certificatesv1.PodCertificateRequest) string { return string(r.Spec.NodeName) }
