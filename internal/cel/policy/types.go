package policy

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// The names of the CEL types.
const (
	variablesName = "kubernetes.variables"
	requestName   = "kubernetes.AdmissionRequest"
	kindName      = "kubernetes.GroupVersionKind"
	resourceName  = "kubernetes.GroupVersionResource"
	userName      = "kubernetes.UserInfo"
	namespaceName = "kubernetes.Namespace"
	metadataName  = "kubernetes.NamespaceMetadata"
	specName      = "kubernetes.NamespaceSpec"
	statusName    = "kubernetes.NamespaceStatus"
	conditionName = "kubernetes.NamespaceCondition"
	// objectName is the type of the object in an apply configuration. The types of its parts are paths below
	// objectName. All of these types may have any fields.
	objectName = "Object"
	patchName  = "JSONPatch"
)

// ObjectType returns the CEL type of apply configurations, which is the result type of mutations of type
// ApplyConfiguration.
func ObjectType() *cel.Type { return cel.ObjectType(objectName) }

// PatchesType returns the CEL type of a list of JSON patch operations, which is the result type of mutations of
// type JSONPatch.
func PatchesType() *cel.Type { return cel.ListType(cel.ObjectType(patchName)) }

// provider resolves the names of the types of admission expressions, and delegates all other names to the
// embedded provider.
type provider struct {
	types.Provider
	compiler *Compiler // contains the declared variables
	patches  bool
}

func (p provider) isObject(name string) bool {
	return p.patches && (name == objectName || strings.HasPrefix(name, objectName+"."))
}

// FindStructType implements types.Provider.
func (p provider) FindStructType(name string) (*types.Type, bool) {
	switch name {
	case requestName, kindName, resourceName, userName, namespaceName, metadataName, specName, statusName, conditionName:
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	if name == variablesName && p.compiler.Variables || name == patchName && p.patches || p.isObject(name) {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// NewValue implements types.Provider. Of the types in this package, expressions can create only values of the
// types for mutations.
func (p provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if p.isObject(name) || p.patches && name == patchName {
		return &object{name: name, fields: fields}
	}
	return p.Provider.NewValue(name, fields)
}

// FindStructFieldType implements types.Provider.
func (p provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	var t *types.Type
	switch {
	case name == variablesName:
		t = p.compiler.declared[field]
	case p.isObject(name):
		t = types.DynType
	case p.patches && name == patchName:
		t = patchField(field)
	default:
		t = fieldOf(name, field)
	}
	if t == nil {
		return p.Provider.FindStructFieldType(name, field)
	}
	return &types.FieldType{Type: t}, true
}

func patchField(field string) *types.Type {
	switch field {
	case "op", "path", "from":
		return types.StringType
	case "value":
		return types.DynType
	}
	return nil
}

// fieldOf returns the type of a field of an admission type whose fields are fixed, or nil if there is no such
// field.
func fieldOf(name, field string) *types.Type {
	switch name {
	case requestName:
		return requestField(field)
	case kindName:
		return oneOf(field, types.StringType, "group", "version", "kind")
	case resourceName:
		return oneOf(field, types.StringType, "group", "version", "resource")
	case userName:
		return userField(field)
	case namespaceName:
		return namespaceField(field)
	case metadataName:
		return metadataField(field)
	case specName:
		return oneOf(field, types.NewListType(types.StringType), "finalizers")
	case statusName:
		if field == "conditions" {
			return types.NewListType(types.NewObjectType(conditionName))
		}
		return oneOf(field, types.StringType, "phase")
	case conditionName:
		if field == "lastTransitionTime" {
			return types.TimestampType
		}
		return oneOf(field, types.StringType, "status", "type", "message", "reason")
	}
	return nil
}

// oneOf returns t if names contains the field, and nil otherwise.
func oneOf(field string, t *types.Type, names ...string) *types.Type {
	if slices.Contains(names, field) {
		return t
	}
	return nil
}

func requestField(field string) *types.Type {
	switch field {
	case "kind", "requestKind":
		return types.NewObjectType(kindName)
	case "resource", "requestResource":
		return types.NewObjectType(resourceName)
	case "userInfo":
		return types.NewObjectType(userName)
	case "dryRun":
		return types.BoolType
	case "options":
		return types.DynType
	}
	return oneOf(field, types.StringType, "subResource", "requestSubResource", "name", "namespace", "operation")
}

func userField(field string) *types.Type {
	switch field {
	case "groups":
		return types.NewListType(types.StringType)
	case "extra":
		return types.NewMapType(types.StringType, types.NewListType(types.StringType))
	}
	return oneOf(field, types.StringType, "username", "uid")
}

func namespaceField(field string) *types.Type {
	switch field {
	case "metadata":
		return types.NewObjectType(metadataName)
	case "spec":
		return types.NewObjectType(specName)
	case "status":
		return types.NewObjectType(statusName)
	}
	return nil
}

func metadataField(field string) *types.Type {
	switch field {
	case "labels", "annotations":
		return types.NewMapType(types.StringType, types.StringType)
	case "creationTimestamp", "deletionTimestamp":
		return types.TimestampType
	case "deletionGracePeriodSeconds", "generation":
		return types.IntType
	case "finalizers":
		return types.NewListType(types.StringType)
	}
	return oneOf(field, types.StringType, "name", "generateName", "namespace", "UID", "resourceVersion")
}
