// Package ownership maintains managed fields like apimachinery's package managedfields, which uses
// structured-merge-diff, but at a lower cost. It walks an object once with a plan for its Go type and merge
// schema, and creates field sets only for changes. It does not convert between versions and does not return
// errors. If it does not support a case exactly, it changes no object and reports false, and the caller
// uses apimachinery.
package ownership
