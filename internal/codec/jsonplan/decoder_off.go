//go:build nojsonplan

package jsonplan

const decoderEnabled = false
