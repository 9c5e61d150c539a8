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

// entry is the part of a definition that is always in memory. It is immutable, except for derived
// and creates, which are safe for concurrent use.
type entry struct {
	name                 string
	uid                  types.UID
	revision, generation int64

	group      string
	namespaced bool
	// requested contains the names in the spec, and accepted the names in the status.
	requested, accepted names
	versions            []entryVersion // in order of preference

	// webhook is set if a webhook converts objects between versions. unsafe is set if the CA bundle of the
	// webhook is invalid.
	webhook, unsafe bool
	// preservesUnknown is spec.preserveUnknownFields. If it is set, objects are not pruned. nonStructural is
	// set if the definition has the NonStructuralSchema condition. Both are set only for definitions that
	// kube-apiserver stored and that are no longer valid.
	preservesUnknown, nonStructural bool
	// approvalOutdated is set if the approval condition does not match the group and the approval annotation of
	// the definition.
	approvalOutdated bool

	// The phase of the definition follows from stored, decision and removing: see lifecycle.go.
	stored storedConditions
	// decision is nil if the status contains the last decision on the names.
	decision *decision
	// removing is set during the write that deletes the definition.
	removing bool

	// All entries with the same generation and list kind share derived. All entries of the definition share
	// creates.
	derived *generationState
	creates *createGate
}

// storedConditions contains the conditions that a definition has at the revision of its entry. terminating is
// set if the definition has a deletion timestamp.
type storedConditions struct{ namesAccepted, established, terminating bool }

// entryVersion is a version of a definition.
type entryVersion struct {
	name string
	// index is the index of the version in the spec.
	index             int
	served, storage   bool
	status, scale     bool // whether the version has the subresource
	deprecated        bool
	deprecationNotice string // empty selects the default text
	// selectable contains the JSON paths of the selectable fields.
	selectable []string
}

// names contains the names of a definition. singular and listKind may be empty.
type names struct {
	plural, singular, kind, listKind string
	shortNames, categories           []string
}

func namesOf(n *apiextensionsv1.CustomResourceDefinitionNames) names {
	return names{n.Plural, n.Singular, n.Kind, n.ListKind, n.ShortNames, n.Categories}
}

// clone returns a deep copy. The names of a decoded definition are substrings of its JSON, and would
// retain it in memory.
func (n names) clone() names {
	return names{
		strings.Clone(n.plural), strings.Clone(n.singular), strings.Clone(n.kind), strings.Clone(n.listKind),
		cloneAll(n.shortNames), cloneAll(n.categories),
	}
}

func cloneAll(list []string) []string {
	var cloned []string
	for _, s := range list {
		cloned = append(cloned, strings.Clone(s))
	}
	return cloned
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

// newEntry returns the entry of a definition at a revision, without derived state. The entry shares no memory
// with the definition. newEntry does not use the schemas, so crd may be the result of decodeWithoutSchemas.
func newEntry(crd *apiextensionsv1.CustomResourceDefinition, revision int64) *entry {
	e := &entry{
		name: strings.Clone(crd.Name), uid: types.UID(strings.Clone(string(crd.UID))), revision: revision,
		generation: crd.Generation, group: strings.Clone(crd.Spec.Group),
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		requested:  namesOf(&crd.Spec.Names).clone(), accepted: namesOf(&crd.Status.AcceptedNames).clone(),
		stored: storedConditions{
			namesAccepted: definition.IsTrue(crd, apiextensionsv1.NamesAccepted),
			established:   definition.IsTrue(crd, apiextensionsv1.Established),
			terminating:   crd.DeletionTimestamp != nil,
		},
		approvalOutdated: isApprovalOutdated(crd),
		preservesUnknown: crd.Spec.PreserveUnknownFields,
		nonStructural:    definition.FindCondition(crd, apiextensionsv1.NonStructuralSchema) != nil,
		webhook:          usesWebhook(crd), unsafe: definition.InvalidCABundle(crd),
	}
	for i := range crd.Spec.Versions {
		e.versions = append(e.versions, newEntryVersion(&crd.Spec.Versions[i], i))
	}
	slices.SortStableFunc(e.versions, func(a, b entryVersion) int { return version.CompareKubeAwareVersionStrings(b.name, a.name) })
	return e
}

func newEntryVersion(v *apiextensionsv1.CustomResourceDefinitionVersion, index int) entryVersion {
	out := entryVersion{name: strings.Clone(v.Name), index: index, served: v.Served, storage: v.Storage, deprecated: v.Deprecated}
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

// reservedNames returns the names that no other definition of the group can use.
func (e *entry) reservedNames() names {
	if e.decision != nil {
		return e.decision.names
	}
	return e.accepted
}

// listKind returns the kind of lists. An established definition has its accepted list kind, because the requested one can
// belong to another definition.
func (e *entry) listKind() string {
	if e.stored.established && e.accepted.listKind != "" {
		return e.accepted.listKind
	}
	return e.requested.listKind
}

// resource returns the group and plural name.
func (e *entry) resource() schema.GroupResource {
	return schema.GroupResource{Group: e.group, Resource: e.requested.plural}
}

func (e *entry) groupVersion(version string) schema.GroupVersion {
	return schema.GroupVersion{Group: e.group, Version: version}
}

// version returns a served version, or nil if there is no such version or it is not served.
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
	return &e.versions[0] // validation requires a storage version
}

// sameGeneration reports whether another entry has the same definition and generation.
func (e *entry) sameGeneration(other *entry) bool {
	return e.uid == other.uid && e.generation == other.generation
}

// isTerminatedBy reports whether marked is the next generation of e and the generation was incremented only
// because the definition received a deletion timestamp.
func (e *entry) isTerminatedBy(marked *entry) bool {
	return e.uid == marked.uid && !e.stored.terminating && marked.stored.terminating && e.generation+1 == marked.generation
}

// groupVersions returns the group versions that the definition has in discovery. e may be nil.
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
