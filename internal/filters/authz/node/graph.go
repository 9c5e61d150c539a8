package node

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// kind is a kind of object that kubelets may read only if their pods refer to it.
type kind uint8

const (
	secrets kind = iota
	configMaps
	claims // PersistentVolumeClaims
	resourceClaims
	serviceAccounts
)

// objectKey identifies an object, which need not exist.
type objectKey struct {
	kind            kind
	namespace, name string
}

// object is an object that pods or volumes refer to. While references to an object exist, the graph
// contains exactly one value for the object, so that references can be pointers.
type object struct {
	key objectKey
	// volumes are the volumes that require the object, which is then a secret.
	volumes []*volume
	// references is the number of pods and volumes that refer to the object.
	references int
}

// node is a node with pods or with objects that belong to it. The Node object need not exist.
type node struct {
	name string
	// uses contains the number of pods of the node that refer to each object.
	uses map[*object]uint32
	// references is the number of pods and other objects that belong to the node.
	references int
}

// pod is a pod that is bound to a node, with the objects that it refers to.
type pod struct {
	node    *node
	objects []*object
}

// volume is a PersistentVolume that is bound to a claim.
type volume struct {
	claim   *object
	secrets []*object
}

// podRefs contains the references of a pod. If node is "", the pod is not in the graph.
type podRefs struct {
	node    string
	objects []objectKey
}

// volumeRefs contains the references of a PersistentVolume. If bound is false, the volume is not in
// the graph.
type volumeRefs struct {
	bound   bool
	claim   objectKey
	secrets []objectKey
}

// graph contains the relations between nodes and objects. A node is related to the objects to which
// its pods refer. If a pod refers to a claim, its node is also related to the volume that is bound
// to the claim, and to the secrets of the volume. Callers must synchronize access.
type graph struct {
	nodes   map[string]*node
	objects map[objectKey]*object
	pods    map[types.NamespacedName]*pod
	volumes map[types.NamespacedName]*volume
	// Objects that belong to exactly one node.
	attachments, slices, certificates owners
}

// owners maps the names of objects to the nodes to which the objects belong.
type owners map[types.NamespacedName]*node

func newGraph() graph {
	return graph{
		nodes: map[string]*node{}, objects: map[objectKey]*object{}, pods: map[types.NamespacedName]*pod{}, volumes: map[types.NamespacedName]*volume{},
		attachments: owners{}, slices: owners{}, certificates: owners{},
	}
}

// uses reports whether a pod of a node refers to an object, or to the claim of a volume that
// requires the object.
func (g *graph) uses(name string, key objectKey) bool {
	n, of := g.nodes[name], g.objects[key]
	if n == nil || of == nil {
		return false
	}
	if n.uses[of] > 0 {
		return true
	}
	for _, v := range of.volumes {
		if n.uses[v.claim] > 0 {
			return true
		}
	}
	return false
}

// usesVolume reports whether a pod of a node refers to the claim of a PersistentVolume.
func (g *graph) usesVolume(name string, at types.NamespacedName) bool {
	n, v := g.nodes[name], g.volumes[at]
	return n != nil && v != nil && n.uses[v.claim] > 0
}

// hasPod reports whether a pod is bound to a node.
func (g *graph) hasPod(name string, at types.NamespacedName) bool {
	p := g.pods[at]
	return p != nil && p.node.name == name
}

// isOwner reports whether an object belongs to a node.
func (o owners) isOwner(name string, at types.NamespacedName) bool {
	n := o[at]
	return n != nil && n.name == name
}

func (g *graph) setPod(at types.NamespacedName, refs podRefs) {
	old := g.pods[at]
	if old != nil && old.node.name == refs.node && sameReferences(old.objects, refs.objects) {
		return // most writes to pods do not change references
	}
	g.removePod(at)
	if refs.node == "" {
		return
	}
	p := &pod{node: g.acquireNode(refs.node), objects: g.acquireObjects(refs.objects)}
	for _, o := range p.objects {
		p.node.uses[o]++
	}
	g.pods[cloneName(at)] = p
}

// sameReferences reports whether objects have these keys, in order.
func sameReferences(objects []*object, keys []objectKey) bool {
	if len(objects) != len(keys) {
		return false
	}
	for i, o := range objects {
		if o.key != keys[i] {
			return false
		}
	}
	return true
}

func (g *graph) removePod(at types.NamespacedName) {
	p := g.pods[at]
	if p == nil {
		return
	}
	delete(g.pods, at)
	for _, o := range p.objects {
		if p.node.uses[o]--; p.node.uses[o] == 0 {
			delete(p.node.uses, o)
		}
		g.releaseObject(o)
	}
	g.releaseNode(p.node)
}

func (g *graph) setVolume(at types.NamespacedName, refs volumeRefs) {
	old := g.volumes[at]
	if old != nil && refs.bound && old.claim.key == refs.claim && sameReferences(old.secrets, refs.secrets) {
		return
	}
	g.removeVolume(at)
	if !refs.bound {
		return
	}
	v := &volume{claim: g.acquireObjects([]objectKey{refs.claim})[0], secrets: g.acquireObjects(refs.secrets)}
	for _, o := range v.secrets {
		o.volumes = append(o.volumes, v)
	}
	g.volumes[cloneName(at)] = v
}

func (g *graph) removeVolume(at types.NamespacedName) {
	v := g.volumes[at]
	if v == nil {
		return
	}
	delete(g.volumes, at)
	for _, o := range v.secrets {
		o.volumes = removeOnce(o.volumes, v)
		g.releaseObject(o)
	}
	g.releaseObject(v.claim)
}

// removeOnce removes one occurrence of v. A volume that refers to a secret twice occurs twice.
func removeOnce(volumes []*volume, v *volume) []*volume {
	for i := range volumes {
		if volumes[i] == v {
			volumes[i] = volumes[len(volumes)-1]
			volumes[len(volumes)-1] = nil
			return volumes[:len(volumes)-1]
		}
	}
	return volumes
}

// setOwner sets the node of an object. An empty name removes the object.
func (g *graph) setOwner(of owners, at types.NamespacedName, name string) {
	if of.isOwner(name, at) {
		return
	}
	g.removeOwner(of, at)
	if name != "" {
		of[cloneName(at)] = g.acquireNode(name)
	}
}

func (g *graph) removeOwner(of owners, at types.NamespacedName) {
	if n := of[at]; n != nil {
		delete(of, at)
		g.releaseNode(n)
	}
}

// acquireNode returns the node with a name and adds a reference to it.
func (g *graph) acquireNode(name string) *node {
	n := g.nodes[name]
	if n == nil {
		n = &node{name: strings.Clone(name), uses: map[*object]uint32{}}
		g.nodes[n.name] = n
	}
	n.references++
	return n
}

func (g *graph) releaseNode(n *node) {
	if n.references--; n.references == 0 {
		delete(g.nodes, n.name)
	}
}

// acquireObjects returns the objects with these keys and adds a reference to each.
func (g *graph) acquireObjects(keys []objectKey) []*object {
	if len(keys) == 0 {
		return nil
	}
	objects := make([]*object, len(keys))
	for i, key := range keys {
		o := g.objects[key]
		if o == nil {
			o = &object{key: objectKey{key.kind, strings.Clone(key.namespace), strings.Clone(key.name)}}
			g.objects[o.key] = o
		}
		o.references++
		objects[i] = o
	}
	return objects
}

func (g *graph) releaseObject(o *object) {
	if o.references--; o.references == 0 {
		delete(g.objects, o.key)
	}
}

// cloneName returns a name that does not share memory with a larger string.
func cloneName(name types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: strings.Clone(name.Namespace), Name: strings.Clone(name.Name)}
}
