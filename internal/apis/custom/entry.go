package custom

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
)

// entry is the part of a definition that is always in memory. It is immutable.
type entry struct {
	name                 string
	uid                  types.UID
	revision, generation int64

	group      string
	namespaced bool
	// requested are the names in the spec, accepted those in the status.
	requested, accepted names
	versions            []entryVersion // in order of preference

	// webhook: versions are converted by a webhook; unsafe: its CA bundle is
	// malformed.
	webhook, unsafe bool

	namesAccepted, established, terminating bool
	// approvalOpen: the condition of a protected group differs from the
	// annotation.
	approvalOpen bool
	// keepsUnknown: objects are not pruned; nonStructural: the condition
	// NonStructuralSchema is set. Both only with old definitions.
	keepsUnknown, nonStructural bool
	// decided is the decision on the names until it is written; nil once the status
	// has it.
	decided *decision

	// state is shared by all entries of the same generation, barrier by all
	// entries of the definition.
	state   *generationState
	barrier *createBarrier
}

// decision is the part of a definition's status that concerns its names.
type decision struct {
	names                      names
	namesAccepted, established bool
	// underway: the loop has started to write it. Before that, it is a promise to the writer of the
	// definition.
	underway bool
}

type entryVersion struct {
	name string
	// index is that of the version in the spec.
	index             int
	served, storage   bool
	status, scale     bool
	deprecated        bool
	deprecationNotice string
	// selectable are the paths of the selectable fields.
	selectable []string
}

type names struct {
	plural, singular, kind, listKind string
	shortNames, categories           []string
}

func namesOf(n *apiextensionsv1.CustomResourceDefinitionNames) names {
	return names{n.Plural, n.Singular, n.Kind, n.ListKind, n.ShortNames, n.Categories}
}

// clone returns a deep copy. The names of a decoded definition are substrings of its
// JSON, which they would keep in memory.
func (n names) clone() names {
	return names{
		strings.Clone(n.plural), strings.Clone(n.singular), strings.Clone(n.kind), strings.Clone(n.listKind),
		cloneAll(n.shortNames), cloneAll(n.categories),
	}
}

func cloneAll(list []string) []string {
	var own []string
	for _, s := range list {
		own = append(own, strings.Clone(s))
	}
	return own
}

func (n names) equal(other names) bool {
	return n.plural == other.plural && n.singular == other.singular && n.kind == other.kind && n.listKind == other.listKind &&
		slices.Equal(n.shortNames, other.shortNames) && slices.Equal(n.categories, other.categories)
}

// api returns the names as an API type.
func (n names) api() apiextensionsv1.CustomResourceDefinitionNames {
	return apiextensionsv1.CustomResourceDefinitionNames{
		Plural: n.plural, Singular: n.singular, Kind: n.kind, ListKind: n.listKind, ShortNames: n.shortNames, Categories: n.categories,
	}
}

// newEntry returns the entry of a definition at a revision. It shares no memory with
// the definition.
func newEntry(crd *apiextensionsv1.CustomResourceDefinition, revision int64) *entry {
	e := &entry{
		name: strings.Clone(crd.Name), uid: types.UID(strings.Clone(string(crd.UID))), revision: revision,
		generation: crd.Generation, group: strings.Clone(crd.Spec.Group),
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		requested:  namesOf(&crd.Spec.Names).clone(), accepted: namesOf(&crd.Status.AcceptedNames).clone(),
		namesAccepted: definition.IsTrue(crd, apiextensionsv1.NamesAccepted),
		established:   definition.IsTrue(crd, apiextensionsv1.Established),
		terminating:   crd.DeletionTimestamp != nil,
		approvalOpen:  approvalOpen(crd),
		keepsUnknown:  crd.Spec.PreserveUnknownFields,
		nonStructural: definition.FindCondition(crd, apiextensionsv1.NonStructuralSchema) != nil,
		webhook:       asksWebhook(crd), unsafe: definition.InvalidCABundle(crd),
	}
	for i := range crd.Spec.Versions {
		e.versions = append(e.versions, newEntryVersion(&crd.Spec.Versions[i], i))
	}
	slices.SortStableFunc(e.versions, func(a, b entryVersion) int { return version.CompareKubeAwareVersionStrings(b.name, a.name) })
	return e
}

func newEntryVersion(v *apiextensionsv1.CustomResourceDefinitionVersion, at int) entryVersion {
	out := entryVersion{name: strings.Clone(v.Name), index: at, served: v.Served, storage: v.Storage, deprecated: v.Deprecated}
	if v.DeprecationWarning != nil {
		out.deprecationNotice = strings.Clone(*v.DeprecationWarning)
	}
	if v.Subresources != nil {
		out.status, out.scale = v.Subresources.Status != nil, v.Subresources.Scale != nil
	}
	for _, f := range v.SelectableFields {
		out.selectable = append(out.selectable, strings.Clone(f.JSONPath))
	}
	return out
}

// reservedNames returns the names that no other definition of the group can get.
func (e *entry) reservedNames() names {
	if e.decided != nil {
		return e.decided.names
	}
	return e.accepted
}

// isServed reports whether requests for the resource are served. Requests before the condition is
// stored wait for it: see handler.open.
func (e *entry) isServed() bool {
	namesAccepted, established := e.namesAccepted, e.established
	if e.decided != nil {
		namesAccepted, established = e.decided.namesAccepted, e.decided.established
	}
	return (established || namesAccepted && !e.unsafe) && !e.isHidden()
}

func (e *entry) isHidden() bool { return e.barrier != nil && e.barrier.hidden.Load() }

// isDiscovered reports whether discovery and OpenAPI have the resource. They do once
// the condition Established is stored, so that a client that finds it there can update
// the definition without a conflict with the server's own write.
func (e *entry) isDiscovered() bool { return e.established && !e.isHidden() }

func (e *entry) groupVersion(version string) schema.GroupVersion {
	return schema.GroupVersion{Group: e.group, Version: version}
}

// version returns a version that is served, nil where it is not.
func (e *entry) version(name string) *entryVersion {
	for i := range e.versions {
		if v := &e.versions[i]; v.name == name && v.served {
			return v
		}
	}
	return nil
}

func (e *entry) storageVersion() *entryVersion {
	for i := range e.versions {
		if e.versions[i].storage {
			return &e.versions[i]
		}
	}
	return &e.versions[0] // no definition without one is stored
}

// sameGeneration reports whether another entry is of the same definition and
// generation.
func (e *entry) sameGeneration(other *entry) bool {
	return e.uid == other.uid && e.generation == other.generation
}

// isTerminatedBy reports whether marked differs only in the deletion timestamp, which increments
// the generation.
func (e *entry) isTerminatedBy(marked *entry) bool {
	return e.uid == marked.uid && !e.terminating && marked.terminating && e.generation+1 == marked.generation
}

// groupVersions returns the group versions of the definition in discovery.
func (e *entry) groupVersions() []schema.GroupVersion {
	if e == nil || !e.isDiscovered() {
		return nil
	}
	var served []schema.GroupVersion
	for i := range e.versions {
		if e.versions[i].served {
			served = append(served, e.groupVersion(e.versions[i].name))
		}
	}
	return served
}
