//! Pages say what others can name, link to each other, and run nothing that a comment says.

use bifrost_theta::{Options, Sources};
use bifrost_tools::doc::{Format, generate};

const SHAPES: &str = "\
% Shapes, and how to make them.
% The *only* kind is the circle.

import base (Point as Place)

% A figure in the plane.
Shape = type
  % It cannot move.
  centre () returns (Place)
  covers (p: Place, Place: Shape) returns (bool)
  % Whether `p` lies <b>inside</b>; see [there](javascript:alert) and [here](https://example.org/a:b).
end Shape

module shapes exports circle, Base
  Circle = class implements Shape
    centre: Place
    covers (p: Place, q: Shape) returns (bool) return (false) end covers
  end Circle

  Base = class implements Shape provides make_base
    centre: Place
    make_base (p: Place) makes (Base)
    % For subclasses.
      make {centre := p}
    end make_base
    covers (p: Place, q: Shape) returns (bool) return (false) end covers
  end Base

  remote circle (at: Place) returns (Shape)
  % A circle around `at`.
  %
  % <script>alert(1)</script>
    return (Circle{centre := at})
  end circle
end shapes
";

fn pages(format: Format) -> Vec<(String, String)> {
    let mut sources = Sources::new();
    let shapes = sources.add("src/shapes.theta", SHAPES);
    let base = sources
        .add("src/base.theta", "% Not a comment of the file.\nPoint = type x () returns (int) end Point\n");
    generate(&sources, &[shapes, base], &Options { root: "src".into(), ..Options::default() }, format)
        .unwrap()
}

fn page(format: Format, name: &str) -> String {
    pages(format).into_iter().find(|(page, _)| page == name).unwrap_or_else(|| panic!("no page {name}")).1
}

#[test]
fn pages_have_what_others_can_name() {
    let names: Vec<String> = pages(Format::Html).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["index.html", "shapes.html", "base.html"]);
    let page = page(Format::Html, "shapes.html");
    for shown in [
        "<p>Shapes, and how to make them.\nThe <em>only</em> kind is the circle.</p>",
        "<p>A figure in the plane.</p>\n<p>It cannot move.</p>",
        "id=\"def.circle\"",
        "<b>remote</b> circle (at: <a",
        "id=\"def.Shape.covers\"",
        "id=\"def.Base.make_base\"",
        "<p>For subclasses.</p>",
        "Whether <code>p</code> lies",
    ] {
        assert!(page.contains(shown), "{shown} is not in\n{page}");
    }
    assert!(!page.contains("def.Circle"), "a class that is not exported is nobody's business");
}

#[test]
fn names_of_types_lead_to_them() {
    let page = page(Format::Html, "shapes.html");
    assert!(page.contains("(p: <a href=\"base.html#def.Point\">Place</a>, Place: <a"), "{page}");
    assert!(page.contains("<a href=\"shapes.html#def.Shape\">Shape</a>"), "{page}");
}

#[test]
fn comments_cannot_run_anything() {
    let page = page(Format::Html, "shapes.html");
    assert!(page.contains("&lt;b&gt;inside&lt;/b&gt;"), "{page}");
    assert!(page.contains("&lt;script&gt;"), "{page}");
    assert!(!page.contains("<script") && !page.contains("javascript:"), "{page}");
    assert!(page.contains("<a href=\"https://example.org/a:b\">here</a>"), "{page}");
    for outside in ["<link", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn markdown_says_the_same() {
    let text = page(Format::Markdown, "shapes.md");
    for shown in [
        "# shapes.theta\n\nShapes, and how",
        "```theta\ncovers (p: Place, Place: Shape) returns (bool)\n```\n\nSee [`Place`](base.md#def.Point), [`Shape`](shapes.md#def.Shape).\n",
        "&lt;b>inside",
        "&lt;script>",
    ] {
        assert!(text.contains(shown), "{shown} is not in\n{text}");
    }
    let index = page(Format::Markdown, "index.md");
    assert!(index.contains("- [`circle`](shapes.md#def.circle), routine: A circle around at.\n"), "{index}");
}

#[test]
fn what_does_not_parse_is_refused() {
    let mut sources = Sources::new();
    let file = sources.add("a.theta", "f (");
    assert!(generate(&sources, &[file], &Options::default(), Format::Html).is_err());
}
