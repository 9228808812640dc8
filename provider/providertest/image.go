package providertest

import (
	"context"

	"github.com/zoomies-fleet/zoomies/provider"
)

var imageCases = []Case{
	{"an image is made once, whichever answer is lost", func(r *rig) {
		r.images()
		r.losses(func(r *rig) *machine { return &machine{} }, func(r *rig, _ *machine) {
			before := len(r.w.Things())
			r.ensure(r.w.Images[0])
			r.ensure(r.w.Images[0])
			if made := len(r.w.Things()) - before; made != 1 {
				r.Errorf("%d images were made", made)
			}
		})
	}},
	{"a machine is made from an image that was made", func(r *rig) {
		r.images()
		r.ensure(r.w.Images[0])
		m := r.row()
		m.Image = r.w.Images[0]
		m.Image.Open = nil
		r.create(m)
	}},
	{"an image that is there needs no file, and one that is not does", func(r *rig) {
		r.images()
		there, not := r.w.Images[0], r.w.Images[1]
		r.ensure(there)
		there.Open, not.Open = nil, nil
		r.ensure(there)
		if err := r.finish(&machine{}, image(r.imager().EnsureImage, not)); !is(err, provider.ErrConflict) {
			r.Errorf("ensure: %v", err)
		}
	}},
	{"an image whose file is another is refused", func(r *rig) {
		r.images()
		before := len(r.w.Things())
		img := r.w.Images[0]
		img.Open = r.w.Images[1].Open
		if err := r.finish(&machine{}, image(r.imager().EnsureImage, img)); !is(err, provider.ErrInvalid) {
			r.Errorf("ensure: %v", err)
		}
		if made := len(r.w.Things()) - before; made != 0 {
			r.Errorf("%d images were made", made)
		}
	}},
	{"images that nothing stands on are pruned, whichever answer is lost", func(r *rig) {
		r.images()
		r.losses(func(r *rig) *machine {
			r.ensure(r.w.Images[0])
			r.ensure(r.w.Images[1])
			m := r.row()
			m.Image = r.w.Images[0]
			r.create(m)
			return m
		}, func(r *rig, m *machine) {
			before := len(r.w.Things())
			r.prune(r.w.Images[1])
			r.running(m)
			r.ensure(without(r.w.Images[0])) // it stayed: a machine stands on it
			r.ensure(without(r.w.Images[1]))
			if gone := before - len(r.w.Things()); gone > 1 {
				r.Errorf("%d things are gone", gone)
			}
			r.remove(m)
			r.prune(r.w.Images[1])
			if err := r.finish(&machine{}, image(r.imager().EnsureImage, without(r.w.Images[0]))); !is(err, provider.ErrConflict) {
				r.Errorf("the image that nothing stands on is still there: %v", err)
			}
			r.prune(provider.Image{})
			if err := r.finish(&machine{}, image(r.imager().EnsureImage, without(r.w.Images[1]))); !is(err, provider.ErrConflict) {
				r.Errorf("an image is still there that none was to be kept of: %v", err)
			}
		})
	}},
	{"images of others are not pruned", func(r *rig) {
		r.images()
		mine, another := r.row().Resource, r.row()
		mark := another.Mark
		mark.Fleet = "another"
		r.put(provider.Found{Resource: mine, Name: "mine", Template: true})
		r.put(provider.Found{Resource: another.Resource, Name: "another", Template: true, Mark: &mark})
		r.pass()
		r.prune(provider.Image{})
		r.watch()
	}},
}

// images skips the case when the provider builds none.
func (r *rig) images() {
	r.Helper()
	_, ok := r.p.(provider.Imager)
	r.needs(ok && len(r.w.Images) > 1, "build images")
}

func (r *rig) imager() provider.Imager {
	r.Helper()
	i, ok := r.p.(provider.Imager)
	if !ok {
		r.Fatalf("it is an Imager no more")
	}
	return i
}

// image is a call for an image in the form of one for a machine.
func image(do func(context.Context, provider.Image) (provider.Step, error), img provider.Image) call {
	return func(ctx context.Context, _ provider.Machine) (provider.Step, error) { return do(ctx, img) }
}

func without(img provider.Image) provider.Image {
	img.Open = nil
	return img
}

func (r *rig) ensure(img provider.Image) {
	r.Helper()
	if err := r.finish(&machine{}, image(r.imager().EnsureImage, img)); err != nil {
		r.Fatalf("ensure %s: %v", img.Name, err)
	}
}

func (r *rig) prune(keep provider.Image) {
	r.Helper()
	for range 3 { // its list may lag
		r.pass()
		if err := r.finish(&machine{}, image(r.imager().PruneImages, keep)); err != nil {
			r.Fatalf("prune: %v", err)
		}
	}
}
