package builtin

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
)

// kindRow is a Row without its type: hooks take codec.Objects. All that is made
// of rows is made of this, so that the compiler makes it once and not for each of
// sixty types, which was a megabyte of code.
type kindRow struct {
	// Row contains the parts that do not depend on the type; its hooks are nil.
	Row[untyped]
	goType reflect.Type
	hub    func() codec.Object
	table  rest.TableConvertor // nil: name and age

	defaults       func(obj codec.Object)
	specChanged    func(obj, old codec.Object) bool
	authorize      func(op *Operation, obj, old codec.Object) error
	prepare        func(op *Operation, obj codec.Object)
	prepareUpdate  func(op *Operation, obj, old codec.Object)
	prepareStatus  func(op *Operation, obj, old codec.Object)
	validate       func(f validation.Field, obj, old codec.Object)
	validateStatus func(f validation.Field, obj, old codec.Object)
	permit         func(op *Operation, f validation.Field, obj, old codec.Object)
	permitStatus   func(op *Operation, f validation.Field, obj, old codec.Object)
	warnings       func(op *Operation, obj, old codec.Object) []string
	gracePeriod    func(obj codec.Object, asked *int64) int64
	held           func(obj codec.Object) bool
	onMark         func(obj codec.Object)
	begin          func(op *Operation, obj, old codec.Object) (registry.Transaction, error)
	ttl            func(env *Env, obj codec.Object) time.Duration
	fields         func(obj codec.Object) fields.Set
	gated          gatedFields
}

// untyped is the type parameter of an erased Row.
type untyped struct{}

// Resource makes an entry of a row.
func Resource[T any, P object[T]](row Row[T]) Entry {
	k := &kindRow{
		Row: Row[untyped]{
			Name: row.Name, Kind: row.Kind, ShortNames: row.ShortNames, Categories: row.Categories, Namespaced: row.Namespaced,
			Gate: row.Gate, StoragePath: row.StoragePath, StorageVersion: row.StorageVersion, StoredAlso: row.StoredAlso, StoredShared: row.StoredShared,
			StoredAsJSON: row.StoredAsJSON, HashedAs: row.HashedAs, Status: row.Status, StatusOnCreate: row.StatusOnCreate,
			Generation: row.Generation, GenerationGate: row.GenerationGate, CreateOnUpdate: row.CreateOnUpdate, RequireResourceVersion: row.RequireResourceVersion,
			ReturnDeleted: row.ReturnDeleted, AnyFinalizer: row.AnyFinalizer, Without: row.Without, Warning: row.Warning, Deprecated: row.Deprecated,
			Expensive: row.Expensive, ValidateName: row.ValidateName,
			StatusKeeps: row.StatusKeeps, Resets: row.Resets, StatusResets: row.StatusResets, OrphanByDefault: row.OrphanByDefault,
			ExactGenerateName: row.ExactGenerateName, NoDependents: row.NoDependents, Undeletable: row.Undeletable, OrphanWarning: row.OrphanWarning, SelectableFields: row.SelectableFields,
			FieldLabel: row.FieldLabel, IndexFields: row.IndexFields, Also: row.Also, Subresources: row.Subresources,
		},
		goType: reflect.TypeFor[T](), hub: func() codec.Object { return P(new(T)) },
		defaults: onOne[T, P](row.Default), onMark: onOne[T, P](row.OnMark),
		prepareUpdate: onTwo[T, P](row.PrepareUpdate), prepareStatus: onTwo[T, P](row.PrepareStatus),
		validate: rulesOf[T, P](row.Validate), validateStatus: rulesOf[T, P](row.ValidateStatus),
		gated:  untypedGated[T, P](row.Gated),
		permit: permitOf[T, P](row.Permit), permitStatus: permitOf[T, P](row.PermitStatus),
	}
	if row.Columns != nil {
		k.table = Table[T, P](row.Columns)
	}
	eraseRest[T, P](k, &row)
	return k
}

// Unserved creates an entry for objects that the hooks of other rows store and that the API does
// not serve. Env.Store returns their store.
func Unserved[T any, P object[T]](row Row[T]) Entry { return unserved{Resource[T, P](row)} }

type unserved struct{ Entry }

func (u unserved) build(env *Env, gv schema.GroupVersion) []*rest.Resource {
	u.Entry.build(env, gv)
	return nil
}

// eraseRest converts the hooks with unique signatures.
func eraseRest[T any, P object[T]](k *kindRow, row *Row[T]) {
	if f := row.SpecChanged; f != nil {
		k.specChanged = func(obj, old codec.Object) bool { return f(typed[T, P](obj), typed[T, P](old)) }
	}
	if f := row.Authorize; f != nil {
		k.authorize = func(op *Operation, obj, old codec.Object) error { return f(op, typed[T, P](obj), typed[T, P](old)) }
	}
	if f := row.Prepare; f != nil {
		k.prepare = func(op *Operation, obj codec.Object) { f(op, typed[T, P](obj)) }
	}
	if f := row.Warnings; f != nil {
		k.warnings = func(op *Operation, obj, old codec.Object) []string { return f(op, typed[T, P](obj), typed[T, P](old)) }
	}
	if f := row.GracePeriod; f != nil {
		k.gracePeriod = func(obj codec.Object, asked *int64) int64 { return f(typed[T, P](obj), asked) }
	}
	if f := row.Held; f != nil {
		k.held = func(obj codec.Object) bool { return f(typed[T, P](obj)) }
	}
	if f := row.Begin; f != nil {
		k.begin = func(op *Operation, obj, old codec.Object) (registry.Transaction, error) {
			return f(op, typed[T, P](obj), typed[T, P](old))
		}
	}
	if f := row.TTL; f != nil {
		k.ttl = func(env *Env, obj codec.Object) time.Duration { return f(env, typed[T, P](obj)) }
	}
	if f := row.Fields; f != nil {
		k.fields = func(obj codec.Object) fields.Set { return f(typed[T, P](obj)) }
	}
}

func onOne[T any, P object[T]](f func(*T)) func(codec.Object) {
	if f == nil {
		return nil
	}
	return func(obj codec.Object) { f(typed[T, P](obj)) }
}

func onTwo[T any, P object[T]](f func(*Operation, *T, *T)) func(*Operation, codec.Object, codec.Object) {
	if f == nil {
		return nil
	}
	return func(op *Operation, obj, old codec.Object) { f(op, typed[T, P](obj), typed[T, P](old)) }
}

func rulesOf[T any, P object[T]](f func(validation.Field, *T, *T)) func(validation.Field, codec.Object, codec.Object) {
	if f == nil {
		return nil
	}
	return func(at validation.Field, obj, old codec.Object) { f(at, typed[T, P](obj), typed[T, P](old)) }
}

func permitOf[T any, P object[T]](f func(*Operation, validation.Field, *T, *T)) func(*Operation, validation.Field, codec.Object, codec.Object) {
	if f == nil {
		return nil
	}
	return func(op *Operation, at validation.Field, obj, old codec.Object) {
		f(op, at, typed[T, P](obj), typed[T, P](old))
	}
}

// typed returns the object of a row; nil for nil, which means an absent object.
func typed[T any, P object[T]](obj codec.Object) *T {
	if obj == nil {
		return nil
	}
	return (*T)(obj.(P))
}
