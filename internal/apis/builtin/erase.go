package builtin

import (
	"k8s.io/apimachinery/pkg/fields"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
)

// erase converts a row whose hooks take type O to a row whose hooks take any object. The result has no
// columns. The code that uses rows is therefore compiled once instead of once for each of about sixty types,
// which saves a megabyte of machine code.
func erase[O codec.Object](row *Row[O]) Row[codec.Object] {
	return Row[codec.Object]{
		Names: row.Names, Namespaced: row.Namespaced, Gate: row.Gate, Versions: row.Versions, Storage: row.Storage,
		WritePolicy: row.WritePolicy, Strategy: eraseStrategy(&row.Strategy), Status: eraseStatus(row.Status),
		Deletion: eraseDeletion(&row.Deletion), FieldSelectors: eraseFieldSelectors(&row.FieldSelectors),
		Subresources: row.Subresources,
	}
}

func eraseStrategy[O codec.Object](s *Strategy[O]) Strategy[codec.Object] {
	out := Strategy[codec.Object]{
		Default: eraseSetter(s.Default), PrepareForUpdate: eraseUpdate(s.PrepareForUpdate),
		Validate: eraseRules(s.Validate), ValidateExternal: eraseExternal(s.ValidateExternal),
	}
	for _, g := range s.GatedFields {
		out.GatedFields = append(out.GatedFields, GatedFields[codec.Object]{
			Gate: g.Gate, Default: eraseSetter(g.Default),
			Visit: func(v *FieldVisitor, obj codec.Object) { g.Visit(v, typed[O](obj)) },
		})
	}
	if f := s.Authorize; f != nil {
		out.Authorize = func(op *Operation, obj, old codec.Object) error { return f(op, typed[O](obj), typed[O](old)) }
	}
	if f := s.PrepareForCreate; f != nil {
		out.PrepareForCreate = func(op *Operation, obj codec.Object) { f(op, typed[O](obj)) }
	}
	if f := s.SpecChanged; f != nil {
		out.SpecChanged = func(obj, old codec.Object) bool { return f(typed[O](obj), typed[O](old)) }
	}
	if f := s.Warnings; f != nil {
		out.Warnings = func(op *Operation, obj, old codec.Object) []string { return f(op, typed[O](obj), typed[O](old)) }
	}
	if f := s.BeginTransaction; f != nil {
		out.BeginTransaction = func(op *Operation, obj, old codec.Object) (registry.Transaction, error) {
			return f(op, typed[O](obj), typed[O](old))
		}
	}
	return out
}

func eraseStatus[O codec.Object](s *Status[O]) *Status[codec.Object] {
	if s == nil {
		return nil
	}
	return &Status[codec.Object]{
		AllowOnCreate: s.AllowOnCreate, PreservedMetadata: s.PreservedMetadata, ResetFields: s.ResetFields, MainResetFields: s.MainResetFields,
		PrepareForUpdate: eraseUpdate(s.PrepareForUpdate), ValidateExternal: eraseExternal(s.ValidateExternal), Validate: eraseRules(s.Validate),
	}
}

func eraseDeletion[O codec.Object](d *Deletion[O]) Deletion[codec.Object] {
	out := Deletion[codec.Object]{
		OrphanByDefault: d.OrphanByDefault, OrphanWarning: d.OrphanWarning, NoDependents: d.NoDependents,
		ForbidName: d.ForbidName, Prepare: eraseSetter(d.Prepare),
	}
	if f := d.GracePeriod; f != nil {
		out.GracePeriod = func(obj codec.Object, requested *int64) int64 { return f(typed[O](obj), requested) }
	}
	if f := d.Blocked; f != nil {
		out.Blocked = func(obj codec.Object) bool { return f(typed[O](obj)) }
	}
	return out
}

func eraseFieldSelectors[O codec.Object](s *FieldSelectors[O]) FieldSelectors[codec.Object] {
	out := FieldSelectors[codec.Object]{Keys: s.Keys, Indexed: s.Indexed, ConvertLabel: s.ConvertLabel}
	if f := s.Values; f != nil {
		out.Values = func(obj codec.Object) fields.Set { return f(typed[O](obj)) }
	}
	return out
}

func eraseSetter[O codec.Object](f func(O)) func(codec.Object) {
	if f == nil {
		return nil
	}
	return func(obj codec.Object) { f(typed[O](obj)) }
}

func eraseUpdate[O codec.Object](f func(*Operation, O, O)) func(*Operation, codec.Object, codec.Object) {
	if f == nil {
		return nil
	}
	return func(op *Operation, obj, old codec.Object) { f(op, typed[O](obj), typed[O](old)) }
}

func eraseRules[O codec.Object](f func(validation.Field, O, O)) func(validation.Field, codec.Object, codec.Object) {
	if f == nil {
		return nil
	}
	return func(at validation.Field, obj, old codec.Object) { f(at, typed[O](obj), typed[O](old)) }
}

func eraseExternal[O codec.Object](f func(*Operation, validation.Field, O, O)) func(*Operation, validation.Field, codec.Object, codec.Object) {
	if f == nil {
		return nil
	}
	return func(op *Operation, at validation.Field, obj, old codec.Object) {
		f(op, at, typed[O](obj), typed[O](old))
	}
}

// typed returns obj as the type O of a row. If obj is nil, it returns the zero value of O, which is a nil
// pointer.
func typed[O codec.Object](obj codec.Object) O {
	if obj == nil {
		var absent O
		return absent
	}
	return obj.(O)
}
