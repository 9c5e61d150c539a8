package allocation

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// BitmapName is the name of the RangeAllocation that kube-apiserver uses for node ports. Its bitmap has one
// bit per port.
const BitmapName = "servicenodeports"

// Bitmap is the record in which kube-apiserver allocates node ports. If a store contains a bitmap, the bitmap
// is the only lock for the ports in its range, because the kube-apiserver that created or shares the store
// uses no other lock. Each write requires that the revision has not changed. Bitmap is not safe for concurrent
// use.
type Bitmap struct {
	storage storage.Interface
	record  *codec.Record
	ports   utilnet.PortRange
	bits    *big.Int
	changed bool
}

// ReadBitmap returns the bitmap, or nil if the store has none. It returns an error if the read fails or the
// bitmap is invalid.
func ReadBitmap(ctx context.Context, ranges storage.Interface) (*Bitmap, error) {
	record, err := ranges.Get(ctx, types.NamespacedName{Name: BitmapName}, storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the bitmap of ports: %w", err)
	}
	object, err := codec.SharedAs[*corev1.RangeAllocation](record)
	if err != nil {
		return nil, err
	}
	b, err := NewBitmap(object)
	if err != nil {
		return nil, err
	}
	b.storage, b.record = ranges, record
	return b, nil
}

// NewBitmap decodes a stored bitmap. It returns an error if its port range is invalid. object is not retained.
func NewBitmap(object *corev1.RangeAllocation) (*Bitmap, error) {
	ports, err := utilnet.ParsePortRange(object.Range)
	if err != nil {
		return nil, fmt.Errorf("read the bitmap of ports: %w", err)
	}
	return &Bitmap{ports: *ports, bits: new(big.Int).SetBytes(object.Data)}, nil
}

// bit returns the index of a port's bit. It returns false if the port is out of range or b is nil.
func (b *Bitmap) bit(name string) (int, bool) {
	if b == nil {
		return 0, false
	}
	port, err := strconv.Atoi(name)
	return port - b.ports.Base, err == nil && b.ports.Contains(port)
}

// Has reports whether a port is allocated. known is false if the port is out of the bitmap's range or b is
// nil.
func (b *Bitmap) Has(name string) (allocated, known bool) {
	bit, known := b.bit(name)
	return known && b.bits.Bit(bit) == 1, known
}

// set allocates or releases a port. It returns false if the port is out of the bitmap's range.
func (b *Bitmap) set(name string, allocated bool) bool {
	bit, known := b.bit(name)
	if !known {
		return false
	}
	value := uint(0)
	if allocated {
		value = 1
	}
	if b.bits.Bit(bit) != value {
		b.bits.SetBit(b.bits, bit, value)
		b.changed = true
	}
	return true
}

// op returns the write of the bitmap.
func (b *Bitmap) op(ctx context.Context) (*storage.Op, error) {
	obj, err := b.record.Object()
	if err != nil {
		return nil, err
	}
	object := obj.(*corev1.RangeAllocation)
	object.Name, object.Data = BitmapName, b.bits.Bytes()
	return b.storage.Prepare(ctx, storage.OpRequest{Current: b.record, Object: object})
}
