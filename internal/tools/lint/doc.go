// Package lint contains only tests. They check the layering of packages, doc comments, dependencies, the links
// and names in documents, and that packages have no mutable global variables.
package lint
