// What the tests of the report's page measure in the browser. Each function answers with what is wrong.
({
  // Elements that stick out of the window, those in regions that scroll by themselves left out.
  sticksOut() {
    const wide = [...document.body.querySelectorAll("*")].filter((element) => {
      if (element.closest(".scroll") || element.closest("svg") || getComputedStyle(element).position === "absolute") return false;
      const box = element.getBoundingClientRect();
      return box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5);
    });
    return wide.map((element) => `${element.tagName}.${element.className}: ${element.textContent.slice(0, 60)}`);
  },

  // Text in pictures that leaves its picture, or runs into another.
  cutOff() {
    const found = [];
    for (const picture of document.querySelectorAll("svg")) {
      const all = picture.viewBox.baseVal;
      const texts = [...picture.querySelectorAll("text")].map((text) => ({ said: text.textContent, box: text.getBBox() }));
      for (const [index, { said, box }] of texts.entries()) {
        if (box.x < -0.5 || box.x + box.width > all.width + 0.5) found.push(`${said} leaves its picture`);
        for (const other of texts.slice(index + 1)) {
          const across = Math.min(box.x + box.width, other.box.x + other.box.width) - Math.max(box.x, other.box.x);
          // Lines of one block are closer than their boxes, which have room for accents.
          const down = Math.min(box.y + box.height, other.box.y + other.box.height) - Math.max(box.y, other.box.y);
          if (across > 0.5 && down > box.height / 2) found.push(`${said} runs into ${other.said}`);
        }
      }
    }
    return found;
  },

  // Texts whose contrast with what is behind them is below WCAG 2.1 AA.
  pale() {
    const channels = (color) => color.match(/[\d.]+/g).map(Number);
    const luminance = (color) => {
      const [r, g, b] = channels(color).slice(0, 3).map((value) => {
        const share = value / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ratio = (one, other) => {
      const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
      return (high + 0.05) / (low + 0.05);
    };
    const clear = (color) => channels(color)[3] === 0 || color === "none";
    const behind = (element) => {
      for (let each = element; each; each = each.parentElement) {
        const color = getComputedStyle(each).backgroundColor;
        if (!clear(color)) return color;
      }
      return getComputedStyle(document.body).backgroundColor;
    };
    const found = [];
    const judge = (color, ground, least, said) => {
      const measured = ratio(color, ground);
      if (measured < least) found.push(`${measured.toFixed(2)}: ${said}`);
    };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (!walker.currentNode.textContent.trim() || element.closest("svg")) continue;
      const style = getComputedStyle(element);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      judge(style.color, behind(element), large ? 3 : 4.5, walker.currentNode.textContent.trim().slice(0, 40));
    }
    for (const area of document.querySelectorAll("svg .own, svg .shared")) {
      const fill = getComputedStyle(area).fill;
      judge(getComputedStyle(area.ownerSVGElement).color, fill === "none" ? behind(area.ownerSVGElement) : fill, 4.5, area.getAttribute("class"));
    }
    for (const bar of document.querySelectorAll("svg .least")) {
      judge(getComputedStyle(bar).fill, behind(bar.ownerSVGElement), 3, "a bar");
    }
    return [...new Set(found)];
  },

  // Unusable places: those that take the keyboard without a name.
  nameless() {
    return [...document.querySelectorAll("a, summary, [tabindex]")]
      .filter((element) => !(element.getAttribute("aria-label") || element.textContent).trim())
      .map((element) => element.outerHTML.slice(0, 80));
  },
})
