package node

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// kind is a kind of object that nodes read because of others.
type kind uint8

const (
	secrets kind = iota
	configMaps
	claims // PersistentVolumeClaims
	resourceClaims
	serviceAccounts
)

// objectKey names an object that need not exist.
type objectKey struct {
	kind            kind
	namespace, name string
}

// object is one that pods or volumes refer to. There is one of each as long as something
// refers to it, so that references are pointers.
type object struct {
	key objectKey
	// volumes are the volumes that require this secret.
	volumes []*volume
	// references counts the pods and volumes that refer to it.
	references int
}

// node is one with pods, or with objects of its own. Its Node need not exist.
type node struct {
	name string
	// uses counts, by object, the pods of the node that refer to it.
	uses map[*object]uint32
	// holds is the number of pods and own objects of the node.
	holds int
}

// pod is a pod that is bound to a node, and its references.
type pod struct {
	node    *node
	objects []*object
}

// volume is a PersistentVolume that is bound to a claim.
type volume struct {
	claim   *object
	secrets []*object
}

// podRefs are the references of a pod for the graph. A pod without a node is not in it.
type podRefs struct {
	node    string
	objects []objectKey
}

// volumeRefs are the references of a PersistentVolume for the graph. A volume without a claim is
// not in it.
type volumeRefs struct {
	bound   bool
	claim   objectKey
	secrets []objectKey
}

// graph contains the relations of nodes to objects: node ← pod ← object, and node ← pod ←
// claim ← volume ← secret. Its owner guards it.
type graph struct {
	nodes   map[string]*node
	objects map[objectKey]*object
	pods    map[types.NamespacedName]*pod
	volumes map[types.NamespacedName]*volume
	// Objects that belong to a single node.
	attachments, slices, certificates owners
}

// owners are the nodes of objects that belong to one.
type owners map[types.NamespacedName]*node

func newGraph() graph {
	return graph{
		nodes: map[string]*node{}, objects: map[objectKey]*object{}, pods: map[types.NamespacedName]*pod{}, volumes: map[types.NamespacedName]*volume{},
		attachments: owners{}, slices: owners{}, certificates: owners{},
	}
}

// uses reports whether a pod of a node refers to an object, or to the claim of a volume that
// needs it.
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

// usesVolume reports whether a pod of a node has the claim that a PersistentVolume is bound to.
func (g *graph) usesVolume(name string, at types.NamespacedName) bool {
	n, v := g.nodes[name], g.volumes[at]
	return n != nil && v != nil && n.uses[v.claim] > 0
}

// runs reports whether a pod is bound to a node.
func (g *graph) runs(name string, at types.NamespacedName) bool {
	p := g.pods[at]
	return p != nil && p.node.name == name
}

// have reports whether an object belongs to a node.
func (o owners) have(name string, at types.NamespacedName) bool {
	n := o[at]
	return n != nil && n.name == name
}

func (g *graph) setPod(at types.NamespacedName, refs podRefs) {
	old := g.pods[at]
	if old != nil && old.node.name == refs.node && same(old.objects, refs.objects) {
		return // most writes to pods
	}
	g.removePod(at)
	if refs.node == "" {
		return
	}
	p := &pod{node: g.hold(refs.node), objects: g.refer(refs.objects)}
	for _, o := range p.objects {
		p.node.uses[o]++
	}
	g.pods[cloned(at)] = p
}

// same reports whether references are to these objects, in order.
func same(objects []*object, keys []objectKey) bool {
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
		g.release(o)
	}
	g.letGo(p.node)
}

func (g *graph) setVolume(at types.NamespacedName, refs volumeRefs) {
	old := g.volumes[at]
	if old != nil && refs.bound && old.claim.key == refs.claim && same(old.secrets, refs.secrets) {
		return
	}
	g.removeVolume(at)
	if !refs.bound {
		return
	}
	v := &volume{claim: g.refer([]objectKey{refs.claim})[0], secrets: g.refer(refs.secrets)}
	for _, o := range v.secrets {
		o.volumes = append(o.volumes, v)
	}
	g.volumes[cloned(at)] = v
}

func (g *graph) removeVolume(at types.NamespacedName) {
	v := g.volumes[at]
	if v == nil {
		return
	}
	delete(g.volumes, at)
	for _, o := range v.secrets {
		o.volumes = without(o.volumes, v)
		g.release(o)
	}
	g.release(v.claim)
}

// without removes a volume once: a secret that it needs twice has it twice.
func without(volumes []*volume, v *volume) []*volume {
	for i := range volumes {
		if volumes[i] == v {
			volumes[i] = volumes[len(volumes)-1]
			volumes[len(volumes)-1] = nil
			return volumes[:len(volumes)-1]
		}
	}
	return volumes
}

// setOwner sets the node of an object; "" removes it.
func (g *graph) setOwner(of owners, at types.NamespacedName, name string) {
	if of.have(name, at) {
		return
	}
	g.removeOwner(of, at)
	if name != "" {
		of[cloned(at)] = g.hold(name)
	}
}

func (g *graph) removeOwner(of owners, at types.NamespacedName) {
	if n := of[at]; n != nil {
		delete(of, at)
		g.letGo(n)
	}
}

// hold returns the node of a name, for a pod or object more.
func (g *graph) hold(name string) *node {
	n := g.nodes[name]
	if n == nil {
		n = &node{name: strings.Clone(name), uses: map[*object]uint32{}}
		g.nodes[n.name] = n
	}
	n.holds++
	return n
}

func (g *graph) letGo(n *node) {
	if n.holds--; n.holds == 0 {
		delete(g.nodes, n.name)
	}
}

// refer returns objects for one more that refers to each.
func (g *graph) refer(keys []objectKey) []*object {
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

func (g *graph) release(o *object) {
	if o.references--; o.references == 0 {
		delete(g.objects, o.key)
	}
}

// cloned returns a name that does not share memory with a larger text.
func cloned(name types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: strings.Clone(name.Namespace), Name: strings.Clone(name.Name)}
}
